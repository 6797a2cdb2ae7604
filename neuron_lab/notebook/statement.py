"""A piece of source that runs in the user's namespace, as with `%time`, for `%neuron_profile statement`.

The cell form does not come here: its cell is run by IPython itself.
"""

from __future__ import annotations

import ast
import inspect
from types import CodeType
from typing import Any

from neuron_lab.errors import UsageError


class Statement:
    """Compiled when made, so that a mistake in it is found before anything is started."""

    def __init__(self, shell: Any, source: str) -> None:
        self._shell = shell
        transformed = shell.transform_cell(source)
        # The counter has moved on already; the source belongs to the cell that is running.
        filename = shell.compile.cache(transformed, shell.execution_count - 1, raw_code=source)
        body = shell.compile.ast_parse(transformed, filename=filename).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        self._parts = [self._code(ast.Module(body, []), filename, "exec")]
        if last is not None:
            self._parts.append(self._code(ast.Expression(last.value), filename, "eval"))

    def run(self, local_ns: dict[str, Any]) -> Any:
        """The value of a last expression; None when the last line is a statement."""
        __tracebackhide__ = True  # IPython leaves this frame out of tracebacks
        value = None
        for part in self._parts:
            value = eval(part, self._shell.user_ns, local_ns)  # None for code compiled with "exec"
        return value

    def _code(self, tree: ast.AST, filename: str, mode: str) -> CodeType:
        with self._shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            code: CodeType = self._shell.compile(tree, filename, mode)
        if code.co_flags & inspect.CO_COROUTINE:
            raise UsageError(
                "%neuron_profile: a line magic cannot await; start the cell with %%neuron_profile instead"
            )
        return code
