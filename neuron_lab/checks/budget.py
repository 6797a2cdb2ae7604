"""A budget of counts and bytes, and what exceeds it. Never of times: those are modelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from neuron_lab.errors import UsageError, unknown_choice

if TYPE_CHECKING:
    from neuron_lab.analysis.totals import Totals


@dataclass(frozen=True)
class Budget:
    """The most there may be; None: no limit. `fallbacks` names the operators that may run on the host."""

    graphs: int | None = None
    breaks: int | None = None
    recompiles: int | None = None
    eager_kernels: int | None = None  # distinct ones
    fallbacks: tuple[str, ...] | None = None
    hbm: float | None = None  # share of one core's memory

    def __str__(self) -> str:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)


@dataclass(frozen=True)
class Counts:
    """What a budget limits, counted."""

    graphs: int
    breaks: int
    recompiles: int
    eager_kernels: int
    fallbacks: tuple[str, ...]
    peak_bytes: int | None
    limit_bytes: int | None

    @property
    def hbm(self) -> float | None:
        """Share of the fullest core; None = no reading, so nothing can be said to exceed a limit."""
        if self.peak_bytes is None or not self.limit_bytes:
            return None
        return self.peak_bytes / self.limit_bytes


def budget_of(values: Mapping[str, Any], where: str) -> Budget:
    """A budget from keywords or a configuration table. Raises UsageError naming `where`."""
    names = [each.name for each in fields(Budget)]
    for name, value in values.items():
        if name not in names:
            raise UsageError(f"{where}: {unknown_choice('budget', name, names)}")
        _check(name, value, where)
    allowed = values.get("fallbacks")
    return Budget(**{**values, "fallbacks": None if allowed is None else tuple(allowed)})


def _check(name: str, value: Any, where: str) -> None:
    if value is None:
        return
    if name == "fallbacks":
        names = isinstance(value, Sequence) and not isinstance(value, str)
        if not names or not all(isinstance(each, str) for each in value):
            raise UsageError(f"{where}: fallbacks takes a list of operator names, got {value!r}")
    elif name == "hbm":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise UsageError(f"{where}: hbm takes a share of a core's memory above 0 up to 1, got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{where}: {name} takes a count, got {value!r}")


def counts_of(found: Totals) -> Counts:
    return Counts(
        graphs=found.kernels.graphs_compiled,
        breaks=found.compile.break_count,
        recompiles=found.compile.recompile_count + found.compile.uncompiled_call_count,
        eager_kernels=found.kernels.distinct,
        fallbacks=tuple(sorted({each.op for each in found.fallbacks})),
        peak_bytes=found.peak_bytes,
        limit_bytes=found.header.hbm_limit_bytes or None,
    )


def excesses(counts: Counts, budget: Budget) -> Iterator[str]:
    """One line per limit that is exceeded."""
    for name in ("graphs", "breaks", "recompiles", "eager_kernels"):
        most, value = getattr(budget, name), getattr(counts, name)
        if most is not None and value > most:
            yield f"{name}: {value:,}, budget {most:,}"
    if budget.fallbacks is not None:
        extra = [op for op in counts.fallbacks if op not in budget.fallbacks]
        if extra:
            allowed = ", ".join(budget.fallbacks) or "none"
            yield f"fallbacks: {', '.join(extra)}; allowed: {allowed}"
    if budget.hbm is not None and counts.hbm is not None and counts.hbm > budget.hbm:
        yield (
            f"hbm: {counts.hbm:.1%} of a core ({counts.peak_bytes:,} of {counts.limit_bytes:,} bytes), "
            f"budget {budget.hbm:.1%}"
        )
