"""What the user reads about the device."""

from neuron_lab.device.info import DeviceInfo

EMULATED = DeviceInfo(
    kind="emulated",
    why="torch_neuronx is not installed",
    instance="trn2.3xlarge",
    chip="trn2",
    lnc=2,
    cores=4,
    hbm_per_core_bytes=25_769_803_776,
    versions={"torch": "2.13.0"},
)


def test_the_text_says_that_it_is_emulated_why_and_what():
    assert repr(EMULATED).splitlines() == [
        "device        neuron: emulated on CPU",
        "why           torch_neuronx is not installed",
        "instance      trn2.3xlarge",
        "chip          trn2",
        "cores         4 at LNC 2",
        "HBM per core  24 GiB (documented)",
        "versions      torch 2.13.0",
    ]


def test_no_reading_is_not_zero():
    hardware = DeviceInfo(kind="hardware", why="torch_neuronx reports 4 cores", chip="trn2", cores=4)
    assert ("HBM per core", "no reading") in hardware.rows()
    assert ("instance", "no reading") in hardware.rows()


def test_off_shows_no_machine():
    assert [name for name, _ in DeviceInfo("off", "not activated").rows()] == ["device", "why"]


def test_html_escapes_what_it_shows():
    html = DeviceInfo("off", "<b>why</b>")._repr_html_()
    assert "&lt;b&gt;why&lt;/b&gt;" in html
    assert "<b>" not in html
