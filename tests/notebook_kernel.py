"""A real IPython kernel for tests: run cells, keep every message, ask for values."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

REPOSITORY = Path(__file__).resolve().parent.parent
TIMEOUT_S = 180.0  # a hang, not a speed limit


@dataclass
class Cell:
    """What came back for one cell: the reply, and all messages on the public channel in order."""

    reply: dict[str, Any]
    messages: list[dict[str, Any]] = field(default_factory=list)

    def of_type(self, *kinds: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["msg_type"] in kinds]

    @property
    def ok(self) -> bool:
        return self.reply["status"] == "ok"

    @property
    def error(self) -> str:
        """The exception's name; empty when the cell ran through."""
        return self.reply.get("ename", "")

    def stream(self, name: str) -> str:
        texts = [message["content"] for message in self.of_type("stream")]
        return "".join(content["text"] for content in texts if content["name"] == name)

    @property
    def result(self) -> str | None:
        """The cell's value as text."""
        found = self.of_type("execute_result")
        return found[0]["content"]["data"]["text/plain"] if found else None

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """Displayed data as a notebook would keep it: updates take the place of what they update."""
        shown: dict[str, dict[str, Any]] = {}
        for number, message in enumerate(self.of_type("display_data", "update_display_data")):
            key = message["content"].get("transient", {}).get("display_id", f"#{number}")
            if message["msg_type"] == "display_data" or key in shown:
                shown[key] = message["content"]["data"]
        return list(shown.values())


class NotebookKernel:
    """Starts a kernel process; `run` one cell at a time."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(cwd=str(folder), env=env)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=TIMEOUT_S)

    def run(self, code: str, *, silent: bool = False, interrupt_at: str = "") -> Cell:
        """`interrupt_at`: interrupt the kernel when the cell prints this."""
        sent = self._client.execute(code, silent=silent, store_history=not silent)
        messages: list[dict[str, Any]] = []
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            message = self._client.get_iopub_msg(timeout=deadline - time.monotonic())
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            messages.append(message)
            if interrupt_at and interrupt_at in message["content"].get("text", ""):
                self._manager.interrupt_kernel()
        while True:
            reply = self._client.get_shell_msg(timeout=deadline - time.monotonic())
            if reply["parent_header"].get("msg_id") == sent:
                return Cell({**reply["content"], "header": reply["header"]}, messages)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the kernel, through JSON."""
        cell = self.run(f"print(__import__('json').dumps({expression}))")
        assert cell.ok, cell.reply
        return json.loads(cell.stream("stdout"))

    def complete(self, code: str) -> list[str]:
        reply = self._client.complete(code, len(code), reply=True, timeout=TIMEOUT_S)
        return list(reply["content"]["matches"])

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()


def kernel_environment(folder: Path) -> dict[str, str]:
    """This process's environment with its own IPython profile and no choice of device."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NEURON_LAB_DEVICE")}
    search = os.pathsep.join(filter(None, [str(REPOSITORY), kept.get("PYTHONPATH", "")]))
    return {**kept, "PYTHONPATH": search, "IPYTHONDIR": str(folder / "ipython"), "OMP_NUM_THREADS": "1"}
