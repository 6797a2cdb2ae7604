"""What `device_info()` and `%neuron_device` show: which `neuron` device this is and why.

It holds facts that others found; it asks neither torch nor the chip table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

HEADLINES = {
    "emulated": "emulated on CPU",
    "hardware": "Neuron hardware",
    "off": "off",
}


@dataclass(frozen=True)
class DeviceInfo:
    """`kind` is "emulated", "hardware" or "off". A figure that could not be read is 0 cores or None bytes."""

    kind: str
    why: str
    instance: str = ""
    chip: str = ""
    lnc: int = 0
    cores: int = 0
    hbm_per_core_bytes: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        return HEADLINES[self.kind]

    def rows(self) -> list[tuple[str, str]]:
        """The table both representations show."""
        rows = [("device", f"neuron: {self.headline}"), ("why", self.why)]
        if self.kind != "off":
            rows += [
                ("instance", self.instance or "no reading"),
                ("chip", self.chip or "no reading"),
                ("cores", f"{self.cores} at LNC {self.lnc}" if self.lnc else str(self.cores)),
                ("HBM per core", self._hbm()),
            ]
        if self.versions:
            rows.append(("versions", ", ".join(f"{name} {version}" for name, version in self.versions.items())))
        rows += [("note", note) for note in self.notes]
        return rows

    def _hbm(self) -> str:
        if self.hbm_per_core_bytes is None:
            return "no reading"
        source = "documented" if self.kind == "emulated" else "reported by the device"
        shared = ", shared by two cores" if self.kind == "emulated" and self.lnc == 1 else ""
        return f"{self.hbm_per_core_bytes / 2**30:g} GiB ({source}{shared})"

    def __repr__(self) -> str:
        return "\n".join(f"{name:<13} {text}" for name, text in self.rows())

    def _repr_html_(self) -> str:
        cells = "".join(
            f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
            f'<td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in self.rows()
        )
        return f"<table>{cells}</table>"
