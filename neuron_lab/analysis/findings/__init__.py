"""What stands out in a profile and what to do about it: rules over a trace, most severe first.

Each rule looks at one thing, says where and what it would gain, and stays silent without readings. Adding one
is one function in the file of its topic and one name in `rules.RULES`.
"""

from neuron_lab.analysis.findings.finding import Finding, Severity
from neuron_lab.analysis.findings.rules import RULES, findings

__all__ = ["RULES", "Finding", "Severity", "findings"]
