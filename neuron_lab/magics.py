"""The IPython commands: parse a line, call the session, show what comes back. No analysis happens here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.error import UsageError as OneLineError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)

import neuron_lab
from neuron_lab.errors import NeuronLabError, UsageError
from neuron_lab.notebook.cell_arming import CellArming
from neuron_lab.notebook.cell_labels import cell_of
from neuron_lab.notebook.completion import OptionCompletion
from neuron_lab.notebook.kernel_call import KernelCall, kernel_call
from neuron_lab.notebook.live_display import StripShelf
from neuron_lab.notebook.options import Option, OptionLine, OptionParser
from neuron_lab.notebook.profiled_run import ProfiledRun, Request
from neuron_lab.notebook.statement import Statement
from neuron_lab.notebook.variables import expand_variables

# What the transformed cell calls. IPython's own registry holds the magics object under its class name.
ARMING_CALL = 'get_ipython().magics_manager.registry["NeuronMagics"].arm_cell'
KERNEL_ARMING_CALL = 'get_ipython().magics_manager.registry["NeuronMagics"].arm_kernel'

PROFILE_OPTIONS = OptionParser(
    "%%neuron_profile",
    [
        Option("--out", "write the profile; the suffix decides: .pftrace, .json or .parquet", "FILE"),
        Option("--name", "label the profile and, if it is an identifier, bind it to that variable", "N"),
        Option("--stacks", "record the Python stack of every operator"),
        Option("--no-live", "show no counters while the cell runs"),
    ],
)
CHECK_OPTIONS = OptionParser(
    "%neuron_check",
    [
        Option("--timeout", "end the run after so many seconds and report what was counted", "SECONDS"),
        Option("--instance", "machine to emulate; the active one if not given", "NAME"),
    ],
)
DEVICE_OPTIONS = OptionParser(
    "%neuron_device",
    [
        Option("--cores", "how many cores to use; all of the instance if not given", "N"),
        Option("--lnc", "physical cores per logical core: 1 or 2", "N"),
        Option("--mode", "auto, hardware, emulated or off", "MODE"),
    ],
)


def _with_usage(parser: OptionParser) -> Callable[[Any], Any]:
    """Append the options to the docstring, which `%magic?` shows."""

    def decorate(function: Any) -> Any:
        function.__doc__ = f"{function.__doc__}\n\nOptions:\n{parser.usage()}\n"
        return function

    return decorate


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Our errors say all there is to say: show them without a traceback through our own frames.

    IPython does so for its own UsageError; any other keeps its type and gets IPython's hook for the display.
    """
    try:
        yield
    except UsageError as mistake:
        raise OneLineError(str(mistake)) from mistake
    except NeuronLabError as problem:
        shown = [f"{type(problem).__name__}: {problem}"]
        problem._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
        raise


@magics_class
class NeuronMagics(Magics):
    """`%neuron_device`, `%%neuron_profile` and `%neuron_check`."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.arming = CellArming(shell, "neuron_profile", ARMING_CALL)
        self.kernel_arming = CellArming(shell, "nki", KERNEL_ARMING_CALL)
        self.completion = OptionCompletion(shell)
        self.completion.offer("neuron_profile", PROFILE_OPTIONS)
        self.completion.offer("neuron_check", CHECK_OPTIONS)
        self.completion.offer("neuron_device", DEVICE_OPTIONS, _instance_names)
        self.shelf = StripShelf()

    @line_magic
    @_with_usage(DEVICE_OPTIONS)
    def neuron_device(self, line: str) -> Any:
        """Show which `neuron` device this is and why, or choose another instance.

        %neuron_device [INSTANCE] [options]
        """
        with _one_line_errors():
            choice = _device_choice(line)
            return neuron_lab.activate(**choice) if choice else neuron_lab.device_info()

    @line_cell_magic
    @needs_local_scope
    @no_var_expand
    @output_can_be_silenced
    @_with_usage(PROFILE_OPTIONS)
    def neuron_profile(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Profile a cell, or one statement, on the `neuron` device.

        %%neuron_profile [options]           the whole cell
        %neuron_profile [options] statement  one statement; its value is returned
        """
        __tracebackhide__ = True
        namespace = self.shell.user_ns if local_ns is None else local_ns
        with _one_line_errors():
            options = PROFILE_OPTIONS.parse(line)
            source = options.rest if cell is None else cell
            if not source.strip():
                raise PROFILE_OPTIONS.mistake(
                    "nothing to profile; give a statement, or use %%neuron_profile on a cell"
                )
            statement = Statement(self.shell, source)
            run = self._start(options, source, namespace)
        return self._run(run, statement, namespace)

    @line_magic
    @needs_local_scope
    @no_var_expand
    @output_can_be_silenced
    @_with_usage(CHECK_OPTIONS)
    def neuron_check(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Will it run on Trainium? Run one statement in a copy of this kernel and report.

        %neuron_check [options] statement

        Nothing the statement does changes this kernel's variables. Returns the report.
        """
        namespace = self.shell.user_ns if local_ns is None else local_ns
        with _one_line_errors():
            from neuron_lab.checks.calls import check_body

            options = CHECK_OPTIONS.parse(line)
            if not options.rest.strip():
                raise CHECK_OPTIONS.mistake("nothing to check; give a statement, as in %neuron_check model(x)")
            statement = Statement(self.shell, options.rest)
            limit = options.text("--timeout")
            return check_body(
                lambda: statement.run(namespace),
                options.rest.strip(),
                instance=options.text("--instance"),
                timeout_s=None if limit is None else _seconds("--timeout", limit),
                cell_of=cell_of(self.shell),
            )

    @line_cell_magic
    @no_var_expand
    @output_can_be_silenced
    def nki(self, line: str, cell: str | None = None) -> Any:
        """Profile one call of an NKI kernel on the modelled clock; line by line, with a timeline.

        %nki kernel(a, b)    the call; its profile is the value
        %%nki kernel(a, b)   the cell runs first, then the call; shown under the cell
        """
        with _one_line_errors():
            if cell is not None:
                raise UsageError("%%nki must be the first line of its cell")
            return kernel_call(line, "%nki").profile(self.shell.user_ns)

    def arm_kernel(self, line: str) -> None:
        """What the first line of a `%%nki` cell becomes."""
        self.kernel_arming.show_cell_as_typed(sys._getframe(1).f_code.co_filename)
        with _one_line_errors():
            call = kernel_call(line, "%%nki")
        self.kernel_arming.arm(lambda result: self._show_kernel(call, result))

    def _show_kernel(self, call: KernelCall, result: Any) -> None:
        """A kernel that raises shows what ran, then fails the cell; a cell that failed profiles nothing."""
        if result is None or result.error_before_exec is not None or result.error_in_exec is not None:
            return
        try:
            with _one_line_errors():
                call.show(self.shell.user_ns)
        except BaseException as problem:
            self.shell.showtraceback()
            result.error_in_exec = problem

    def arm_cell(self, line: str) -> None:
        """What the first line of a `%%neuron_profile` cell becomes."""
        self.arming.show_cell_as_typed(sys._getframe(1).f_code.co_filename)
        with _one_line_errors():
            options = PROFILE_OPTIONS.parse(line)
            if options.rest:
                raise PROFILE_OPTIONS.mistake(f"unexpected {options.rest!r}; code goes on the lines below")
            source = self.arming.cell_source()
            if source and not source.strip().partition("\n")[2].strip():
                raise PROFILE_OPTIONS.mistake("the cell has no code below this line")
            run = self._start(options, source, self.shell.user_ns)
        self.arming.arm(lambda result: self._end_of_cell(run, result))

    def _start(self, options: OptionLine, source: str, namespace: dict[str, Any]) -> ProfiledRun:
        def expanded(name: str) -> str | None:
            value = options.text(name)
            return None if value is None else expand_variables(PROFILE_OPTIONS, name, value, namespace)

        request = Request(
            name=expanded("--name"),
            out=expanded("--out"),
            stacks=options.flag("--stacks"),
            live=not options.flag("--no-live"),
        )
        return ProfiledRun(self.shell, request, self.shelf, source)

    def _run(self, run: ProfiledRun, statement: Statement, namespace: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        try:
            value = statement.run(namespace)
        except BaseException as error:
            self._end(run, error)
            raise
        with _one_line_errors():
            run.end(None)
        return value

    def _end_of_cell(self, run: ProfiledRun, result: Any) -> None:
        """A result that could not be written makes the cell fail, unless it has failed already."""
        error = None if result is None else result.error_in_exec
        problem = self._end(run, error)
        if problem is not None and result is not None and error is None:
            result.error_in_exec = problem

    def _end(self, run: ProfiledRun, error: BaseException | None) -> Exception | None:
        """End it and show, rather than raise, what goes wrong: here nothing above would show it well."""
        try:
            with _one_line_errors():
                run.end(error)
        except Exception as problem:
            self.shell.showtraceback()
            return problem
        return None


def load(shell: Any) -> None:
    """Activate the device and register everything; a second call changes nothing."""
    if _loaded(shell) is not None:
        return
    magics = NeuronMagics(shell)
    if neuron_lab.device_info().kind == "off":
        with _one_line_errors():
            neuron_lab.activate(**_previous_machine)
    shell.register_magics(magics)
    magics.arming.install()
    magics.kernel_arming.install()
    magics.completion.install()


def unload(shell: Any) -> None:
    """Remove the magics and every hook, end what is being profiled, and deactivate the device."""
    magics = _loaded(shell)
    if magics is None:
        return
    magics.arming.remove()
    magics.kernel_arming.remove()
    magics.completion.remove()
    magics.shelf.close()
    manager = shell.magics_manager
    for kind, functions in magics.magics.items():
        for name, function in functions.items():
            if manager.magics[kind].get(name) == function:
                del manager.magics[kind][name]
    del manager.registry[NeuronMagics.__name__]
    _remember_machine()
    neuron_lab.deactivate()


# The machine to return to when the extension is loaded again: device tensors may exist that live on it.
_previous_machine: dict[str, Any] = {}


def _remember_machine() -> None:
    info = neuron_lab.device_info()
    if info.kind == "emulated":
        _previous_machine.update(instance=info.instance, cores=info.cores, lnc=info.lnc)


def _loaded(shell: Any) -> NeuronMagics | None:
    # By name: a reloaded module has a new class.
    found: NeuronMagics | None = shell.magics_manager.registry.get(NeuronMagics.__name__)
    return found


def _device_choice(line: str) -> dict[str, Any]:
    """`[INSTANCE] [options]` as arguments of `activate`."""
    words = line.strip()
    instance, options = (
        ("", words) if words.startswith("--") else (words.partition(" ")[0], words.partition(" ")[2])
    )
    parsed = DEVICE_OPTIONS.parse(options)
    if parsed.rest:
        raise DEVICE_OPTIONS.mistake(f"unexpected {parsed.rest!r}; usage: %neuron_device [INSTANCE] [options]")
    choice: dict[str, Any] = {"instance": instance} if instance else {}
    for name in ("cores", "lnc"):
        text = parsed.text(f"--{name}")
        if text is not None:
            choice[name] = _whole_number(f"--{name}", text)
    mode = parsed.text("--mode")
    return choice if mode is None else {**choice, "mode": mode}


def _whole_number(option: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise DEVICE_OPTIONS.mistake(f"{option} needs a whole number, got {text!r}")
    return int(text)


def _seconds(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CHECK_OPTIONS.mistake(f"{option} needs a number of seconds, got {text!r}") from None


def _instance_names() -> Iterable[str]:
    from neuron_lab.hardware.instances import INSTANCES

    return sorted(INSTANCES)
