"""`neuron_lab.calibrate`: constants of the time model from a real profile, or from what nccom-test printed."""

from __future__ import annotations

from pathlib import Path

from neuron_lab.analysis.calibration import Calibration, calibrate_collectives, calibrate_trace, today
from neuron_lab.errors import UsageError
from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.session.result import Profile
from neuron_lab.trace.table import Trace


def calibrate(
    source: Profile | Trace | str | Path,
    *,
    ranks: int | None = None,
    instance: str | None = None,
    base: Assumptions = DEFAULT,
    on: str | None = None,
) -> Calibration:
    """Refit the assumed constants.

        fitted = neuron_lab.calibrate(profile)                      # taken on a Trainium instance
        fitted = neuron_lab.calibrate(text, ranks=32, instance="trn1.32xlarge")   # what nccom-test printed
        profile.what_if(assumptions=fitted.assumptions)

    A `Path` is read: a saved profile (`.parquet`), else nccom-test output. `on` is the date that reports show
    (today, or the profile's). Raises UsageError when there are no device times in it.
    """
    if isinstance(source, Path):
        if source.suffix == ".parquet":
            from neuron_lab.session.result import load

            source = load(source)
        else:
            source = source.read_text(encoding="utf-8")
    if isinstance(source, str):
        if ranks is None or instance is None:
            raise UsageError("nccom-test output does not name its machine; give ranks= and instance= as well")
        date = on or today()
        return calibrate_collectives(source, ranks=ranks, instance_name=instance, base=base, on=date)
    trace = source.trace if isinstance(source, Profile) else source
    return calibrate_trace(trace, base, on)
