"""`python -m benchmarks [name …]`: run the named benchmarks, or all, each in its own process.

A name is a file's without `bench_`: `python -m benchmarks eager_generation recorder`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def main(wanted: list[str]) -> int:
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; valid: {', '.join(names())}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted or names():
        print(f"\n== {name}", flush=True)
        environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.bench_{name}"], cwd=FOLDER.parent, env=environment
        )
        if done.returncode != 0:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
