"""Make sure the browser tests have a Chromium: installs Debian's when it is missing and we are root.

Playwright's own download needs a host that many networks do not reach, so the system's Chromium is used.
Without one the browser tests skip loudly; in CI they fail instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def main() -> int:
    if shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome"):
        return 0
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(
            "browser: no Chromium; the browser tests will be skipped (Debian: apt-get install chromium)",
            file=sys.stderr,
        )
        return 0
    print("browser: installing Debian's Chromium for the browser tests", flush=True)
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", "chromium"], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
