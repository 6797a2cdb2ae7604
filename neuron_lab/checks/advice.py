"""Settings that would help this run, each with its reason and the line to write.

Only what the run gives a reason for is advised. The settings are those that the documentation of transformers
and of the Neuron SDK names for the `neuron` device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from neuron_lab.analysis.findings import Finding
from neuron_lab.analysis.totals import Totals
from neuron_lab.checks.outcome import Outcome


@dataclass(frozen=True)
class Advice:
    """`line` is what to write; `place` is where the reason was seen, if that is one line."""

    line: str
    reason: str
    place: str = ""


@dataclass(frozen=True)
class Seen:
    """What a piece of advice may depend on."""

    found: Totals
    findings: tuple[Finding, ...]
    outcome: Outcome
    environ: Mapping[str, str]


def advice(seen: Seen) -> tuple[Advice, ...]:
    return tuple(each for rule in _RULES for each in rule(seen))


def _static_cache(seen: Seen) -> Iterator[Advice]:
    for steps in seen.found.kernels.steps:
        if steps.name == "token" and steps.keeps_compiling:
            yield Advice(
                'model.generate(..., cache_implementation="static")',
                "the cache grows, so every token needs kernels that no token before used; a static cache has "
                "one shape, and its decoding step is compiled",
            )


def _shapes(seen: Seen) -> Iterator[Advice]:
    changed = [
        each
        for each in seen.found.compile.recompiles
        if "pad or bucket" in each.reason or "static graph per shape" in each.reason
    ]
    if not changed:
        return
    first = changed[0]
    place = first.cell or first.place
    sizes = 1 + sum(each.count for each in changed if each.variable == first.variable)
    yield Advice(
        "tokenizer(..., padding=True, pad_to_multiple_of=128)",
        f"`{first.variable}` came in {sizes} sizes, each with a graph of its own; padding leaves a few",
        place,
    )
    yield Advice(
        "torch._dynamo.config.automatic_dynamic_shapes = False",
        "graphs have static shapes: tracing a second size with symbols costs time and gains nothing",
        place,
    )


def _bfloat16(seen: Seen) -> Iterator[Advice]:
    for finding in seen.findings:
        if finding.rule == "float32_products":
            yield Advice("model.to(torch.bfloat16)", finding.title, finding.place)


def _full_tiles(seen: Seen) -> Iterator[Advice]:
    for finding in seen.findings:
        if finding.rule == "off_the_grid":
            yield Advice("sizes that are multiples of 128", finding.title, finding.place)


def _loading(seen: Seen) -> Iterator[Advice]:
    variable = "HF_DEACTIVATE_ASYNC_LOAD"
    if "transformers" in seen.outcome.modules and seen.environ.get(variable) != "1":
        yield Advice(
            f'os.environ["{variable}"] = "1"  # before importing transformers',
            "transformers reads weights with several threads, which should not write to the device at once",
        )


def _compiler_off(seen: Seen) -> Iterator[Advice]:
    for variable in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if seen.environ.get(variable) == "1":
            yield Advice(f"unset {variable}", "it is set to 1, so torch.compile compiles nothing in this run")


def _cache_off(seen: Seen) -> Iterator[Advice]:
    pair = ("TORCH_NEURONX_NEFF_DISABLE_CACHE", "TORCH_NEURONX_DISABLE_NEFF_CACHE")
    on = [variable for variable in pair if seen.environ.get(variable, "").lower() in ("1", "true", "yes")]
    if on:
        yield Advice(
            f"unset {' '.join(on)}", "the cache of compiled graphs is off: every process compiles all again"
        )


_RULES: tuple[Callable[[Seen], Iterator[Advice]], ...] = (
    _static_cache,
    _shapes,
    _bfloat16,
    _full_tiles,
    _loading,
    _compiler_off,
    _cache_off,
)
