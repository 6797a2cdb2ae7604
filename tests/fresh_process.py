"""Run a program in a fresh Python process: some things can be tried only once per process."""

import os
import subprocess
import sys
import textwrap


def run(code, *, environ=None):
    """The program's standard output as lines; fails the test, with its errors, when it exits with an error."""
    done = _run(code, environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_failing(code, *, environ=None):
    """The last line on standard error of a program that must end with an exception."""
    done = _run(code, environ)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr.strip().splitlines()[-1]


def _run(code, environ):
    ours = ("NEURON_LAB_DEVICE", "NEURON_LAB_INSTANCE", "NEURON_LAB_CORES", "NEURON_LAB_LNC")
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**clean, **(environ or {})},
    )
