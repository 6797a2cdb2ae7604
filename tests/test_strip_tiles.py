"""Live counters as text, table and widget state: exact words, no invented zeros, names as text."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from neuron_lab.session import LiveCounters
from neuron_lab.widgets.tiles import tiles, tiles_html, tiles_text

GIB = 2**30

COUNTERS = LiveCounters(
    elapsed_s=1.25,
    operators=1200,
    graph_breaks=2,
    recompiles=1,
    eager_kernels=7,
    eager_kernel_hits=1193,
    fallbacks=3,
    hbm_used_bytes=(GIB // 2, GIB, 0, 0),
    hbm_limit_bytes=24 * GIB,
    core_busy=(0.304, 0.482),
)


def test_every_figure_says_where_it_comes_from() -> None:
    assert [(tile.label, tile.value, tile.source) for tile in tiles(COUNTERS)] == [
        ("Time", "1.2 s", "measured on this machine"),
        ("Graph breaks", "2", "counted"),
        ("Recompiles", "1", "counted"),
        ("New eager kernels", "7", "counted; 1,193 reused, 1,200 operators"),
        ("CPU fallbacks", "3", "counted; per the April 2026 list"),
        ("HBM", "1.0 GiB of 24.0 GiB", "measured; core 1, the fullest of 4"),
        ("Core busy", "30–48 %", "modelled share of the modelled span, busiest core"),
    ]


def test_a_missing_reading_is_not_zero() -> None:
    values = {tile.key: (tile.value, tile.share) for tile in tiles(LiveCounters())}
    assert values["hbm"] == ("no reading", None)
    assert values["core_busy"] == ("no reading", None)


def test_steps_dropped_events_and_uncompiled_calls_appear_when_there_are_any() -> None:
    counters = LiveCounters(steps=32, dropped=5, recompiles=8, uncompiled_calls=90)
    shown = {tile.label: (tile.value, tile.source) for tile in tiles(counters)}
    assert shown["Steps"] == ("32", "counted")
    assert shown["Events dropped"] == ("5", "counted")
    assert shown["Recompiles"] == ("8", "counted; 90 calls ran uncompiled")
    assert {"Steps", "Events dropped"}.isdisjoint(tile.label for tile in tiles(COUNTERS))


def test_the_meter_is_the_interval_of_the_share() -> None:
    shares = {tile.key: tile.share for tile in tiles(COUNTERS) if tile.share}
    assert shares == {"hbm": (1 / 24, 1 / 24), "core_busy": (0.304, 0.482)}


def test_wd_4_names_are_text_in_the_static_forms() -> None:
    assert "neuron profile, running &lt;lambda&gt;" in tiles_html("<lambda>", COUNTERS)
    assert tiles_text("<lambda>", COUNTERS).startswith("neuron profile, running <lambda>: Time 1.2 s")


def test_wd_1_the_widget_carries_the_plain_counters_and_a_static_form() -> None:
    strip_module = pytest.importorskip("neuron_lab.widgets.strip", reason="anywidget is not installed")
    strip = strip_module.Strip("decode", COUNTERS)
    data, _ = strip._repr_mimebundle_()
    assert strip.counters == asdict(COUNTERS)
    assert data["text/html"] == tiles_html("decode", COUNTERS)
    assert data["text/plain"] == tiles_text("decode", COUNTERS)
    assert "application/vnd.jupyter.widget-view+json" in data


def test_the_strip_takes_its_drawing_from_the_package_not_the_network() -> None:
    strip_module = pytest.importorskip("neuron_lab.widgets.strip", reason="anywidget is not installed")
    static = strip_module._STATIC
    sources = [(static / name).read_text(encoding="utf-8") for name in ("strip.js", "theme.css")]
    assert not any("://" in source or "@import" in source or "innerHTML" in source for source in sources)
