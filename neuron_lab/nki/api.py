"""The documented API as data: every name with its signature, engines, generation, operand memories and cost.

`api.json` beside this file is made from the public documentation of NKI 0.6 (Neuron SDK 2.32).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any


@functools.cache
def documented() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Module name → function name → facts."""
    facts: dict[str, Any] = json.loads(resources.files("neuron_lab.nki").joinpath("api.json").read_text())
    return {module: names for module, names in facts.items() if module != "about"}


def instruction_facts(name: str) -> Mapping[str, Any]:
    """What is documented of one `nki.isa` function; empty for what has no instruction of its own."""
    return documented()["nki.isa"].get(name, {})


def least_generation(facts: Mapping[str, Any]) -> int:
    """The first core generation that has it."""
    found = re.match(r"v(\d)\+", facts.get("arch", ""))
    return int(found[1]) if found else 2
