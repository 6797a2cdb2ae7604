"""The call that `%nki kernel(a, b)` profiles: parsed before anything runs."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_lab.errors import UsageError

if TYPE_CHECKING:
    from neuron_lab.nki import KernelProfile

_PROFILE = "__neuron_lab_profile"


@dataclass(frozen=True)
class KernelCall:
    """`kernel(a, b)` as `profile(kernel)(a, b)`."""

    source: str
    expression: ast.Expression

    def profile(self, namespace: dict[str, Any]) -> KernelProfile:
        from neuron_lab import nki

        code = compile(self.expression, "<%nki>", "eval")
        made: KernelProfile = eval(code, {**namespace, _PROFILE: nki.profile})
        return made

    def show(self, namespace: dict[str, Any]) -> None:
        """Display the profile; also that of a kernel that raises, as far as it came."""
        from IPython.display import display

        from neuron_lab import nki

        before = _newest()
        try:
            display(self.profile(namespace))
        except BaseException:
            if _newest() is not before:
                display(nki.last_profile())
            raise


def kernel_call(source: str, magic: str) -> KernelCall:
    """Raises UsageError when it is no call."""
    usage = f"usage: {magic} kernel(a, b)"
    if not source.strip():
        raise UsageError(f"{magic}: which call? {usage}")
    try:
        expression = ast.parse(source.strip(), mode="eval")
    except SyntaxError as problem:
        raise UsageError(f"{magic}: {source.strip()!r} is no expression ({problem.msg}); {usage}") from problem
    call = expression.body
    if not isinstance(call, ast.Call):
        raise UsageError(f"{magic}: {source.strip()!r} calls nothing; {usage}")
    call.func = ast.Call(ast.Name(_PROFILE, ast.Load()), [call.func], [])
    return KernelCall(source.strip(), ast.fix_missing_locations(expression))


def _newest() -> KernelProfile | None:
    from neuron_lab import nki

    try:
        return nki.last_profile()
    except UsageError:
        return None
