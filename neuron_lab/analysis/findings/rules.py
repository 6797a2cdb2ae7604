"""The list of rules, and running them."""

from __future__ import annotations

from collections.abc import Callable

from neuron_lab.analysis.findings import host_rules, launch_rules, memory_rules, rank_rules, shape_rules
from neuron_lab.analysis.findings.finding import Finding, Subject
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.trace.table import Trace

Rule = Callable[[Subject], Finding | None]

RULES: tuple[Rule, ...] = (
    launch_rules.launch_bound,
    host_rules.growing_cache,
    host_rules.new_kernels_every_step,
    host_rules.fallback_on_the_hot_path,
    host_rules.recompile_limit,
    host_rules.repeated_recompiles,
    shape_rules.float32_products,
    memory_rules.near_the_limit,
    rank_rules.straggler,
    shape_rules.off_the_grid,
    shape_rules.wide_dtypes,
    shape_rules.short_rows,
    launch_rules.poor_overlap,
    launch_rules.copies_dominate,
    launch_rules.dtype_ping_pong,
    rank_rules.tiny_collectives,
    rank_rules.exposed_collectives,
    host_rules.read_back_every_step,
    host_rules.many_small_copies,
    host_rules.many_graph_breaks,
    host_rules.unsynchronised_timing,
    memory_rules.memory_grows,
    host_rules.records_dropped,
    host_rules.first_iteration_counted,
    host_rules.costed_by_a_guess,
    shape_rules.thin_products,
    launch_rules.unused_cores,
)
"""In the order of the most severe they give; the order of findings of one severity."""

_ORDER = {"high": 0, "medium": 1, "low": 2}


def findings(trace: Trace, assumptions: Assumptions | None = None) -> tuple[Finding, ...]:
    """Every rule's finding, most severe first."""
    return findings_of(Subject(trace, assumptions))


def findings_of(subject: Subject) -> tuple[Finding, ...]:
    """The same, for who needs the analyses of the subject as well."""
    found = [finding for rule in RULES if (finding := rule(subject)) is not None]
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.severity]))
