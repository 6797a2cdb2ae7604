"""The command `neuron-lab` (or `python -m neuron_lab`): what a notebook does, from a shell.

neuron-lab core build|info          compile the emulated device's core, or say which one is used
neuron-lab profile SCRIPT [args …]  run a script on the neuron device under a profile
neuron-lab check SCRIPT [args …]    run it in a child process and say whether it would run well on Trainium
neuron-lab convert TRACE OUT        a saved profile as .pftrace, .json or .parquet
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from neuron_lab.errors import NeuronLabError, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except NeuronLabError as error:
        print(f"neuron-lab: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="neuron-lab", description="PyTorch's neuron device, with or without a chip."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="command")

    core = commands.add_parser("core", help="the emulated device's compiled core: build, info", add_help=False)
    core.add_argument("args", nargs=argparse.REMAINDER)
    core.set_defaults(run=run_core)

    profile = commands.add_parser("profile", help="run a Python script under a profile and print its summary")
    profile.add_argument("--out", type=Path, help="also write .pftrace, .json or .parquet")
    profile.add_argument("--stacks", action="store_true", help="keep the Python stack of every operator")
    profile.add_argument("--instance", help="machine to emulate (default trn2.3xlarge)")
    profile.add_argument("script", type=Path)
    profile.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    profile.set_defaults(run=run_profile)

    check = commands.add_parser(
        "check",
        help="will it run on Trainium? run a script in a child process and report",
        epilog="exit status: 0 as it should be, 1 causes of waiting found, 2 wrong use, "
        "3 the script raised or was lost, 4 out of time",
    )
    check.add_argument("--instance", help="machine to emulate (default trn2.3xlarge)")
    check.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="end the script and report what was counted"
    )
    check.add_argument(
        "--manifest", type=Path, metavar="FILE", help="also write every graph and eager kernel the run needed"
    )
    check.add_argument(
        "--expect", type=Path, metavar="FILE", help="a manifest of an earlier run; say what it did not predict"
    )
    check.add_argument("script", type=Path)
    check.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    check.set_defaults(run=run_check)

    convert = commands.add_parser("convert", help="write a saved profile in another format")
    convert.add_argument("trace", type=Path)
    convert.add_argument("out", type=Path)
    convert.set_defaults(run=run_convert)
    return top


def run_core(options: argparse.Namespace) -> int:
    from neuron_lab.device import core_command

    return core_command.run(options.args)


def run_profile(options: argparse.Namespace) -> int:
    """The script's own exception and exit status are the command's; the profile is printed all the same."""
    import neuron_lab
    from neuron_lab.reports.export import check_suffix

    if options.out is not None:
        check_suffix(options.out)
    if not options.script.is_file():
        print(f"neuron-lab: no script {str(options.script)!r}", file=sys.stderr)
        return 2
    neuron_lab.activate(instance=options.instance)
    sys.argv = [str(options.script), *options.args]
    sys.path.insert(0, str(options.script.resolve().parent))
    session = neuron_lab.profile(options.script.stem, stacks=options.stacks)
    try:
        with session:
            runpy.run_path(str(options.script), run_name="__main__")
    finally:
        print(session.profile.summary().text)
        if options.out is not None:
            print(session.profile.export(options.out))
    return 0


def run_check(options: argparse.Namespace) -> int:
    """The report follows the script's own output."""
    from neuron_lab.checks.manifest import difference, load_manifest
    from neuron_lab.checks.report import WRONG_USE
    from neuron_lab.checks.scripts import check_script

    expected = None if options.expect is None else load_manifest(options.expect)
    try:
        report = check_script(
            options.script, options.args, instance=options.instance, timeout_s=options.timeout
        )
    except UsageError as error:
        print(f"neuron-lab: {error}", file=sys.stderr)
        return WRONG_USE
    if report.outcome.traceback:
        print(report.outcome.traceback, end="", file=sys.stderr)
    print(report.text)
    if report.manifest is not None:
        if expected is not None:
            print(difference(expected, report.manifest))
        if options.manifest is not None:
            print(f"manifest: {report.manifest.save(options.manifest)}")
    return report.exit_code


def run_convert(options: argparse.Namespace) -> int:
    import neuron_lab

    print(neuron_lab.load(options.trace).export(options.out))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
