"""`$name` and `{expression}` in an option's value, as IPython's own magics have them."""

from __future__ import annotations

from typing import Any

from IPython.utils.text import DollarFormatter

from neuron_lab.notebook.options import OptionParser


def expand_variables(parser: OptionParser, option: str, value: str, namespace: dict[str, Any]) -> str:
    """The value with variables of the namespace put in; an unknown name is a one-line error."""
    try:
        return DollarFormatter().vformat(value, (), namespace)
    except Exception as problem:  # braces hold any expression, so any error can come out of it
        raise parser.mistake(
            f"{option} {value!r} cannot be expanded ({type(problem).__name__}: {problem}); "
            "write {{ }} for plain braces"
        ) from problem
