"""A frozen trace: one columnar table per kind of event, and what those tables refer to.

Readers start here. A trace needs neither the device nor torch, and does not know how it was recorded, saved or
drawn.

    trace.table(Kind.COPY).column("size_bytes")     numpy array, one value per row
    trace.table(Kind.COPY).strings("direction")     list of str, one per row
    trace.df("operator")                            pandas DataFrame

Rows of a table are ordered by `start_ns`. `column("id")` numbers every event of the trace; `parent` refers to
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from neuron_lab.trace.columns import CODES, NO_TEXT, Array, is_known, schema_of, take
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature, TraceHeader

if TYPE_CHECKING:
    import pandas


class Table:
    """The events of one kind, as columns. Nothing can be written to it."""

    def __init__(
        self, kind: str, columns: Mapping[str, Array], text: Iterable[str], vocabulary: Sequence[str]
    ) -> None:
        self.kind: Kind | str = Kind(kind) if is_known(kind) else kind
        self.vocabulary = vocabulary
        self._text = frozenset(text)
        self._columns = {name: _read_only(array) for name, array in columns.items()}
        self._length = len(next(iter(self._columns.values())))

    @classmethod
    def empty(cls, kind: str) -> Table:
        """A table without rows, with every column the kind has."""
        schema = schema_of(kind)
        columns: dict[str, Array] = {"id": np.empty(0, np.int64)}
        for name, column_type in schema.items():
            columns[name] = np.empty(0, CODES if column_type == "text" else column_type)
        return cls(kind, columns, (name for name in schema if schema[name] == "text"), ())

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Table {str(self.kind)!r}: {len(self)} rows, columns {', '.join(self.columns)}>"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def size_bytes(self) -> int:
        """Memory of the columns; constant columns take none."""
        return sum(
            array.nbytes if array.strides != (0,) else array.itemsize for array in self._columns.values()
        )

    def is_text(self, name: str) -> bool:
        return name in self._text

    def column(self, name: str) -> Array:
        """A numeric column: one value per row."""
        if name in self._text:
            raise TypeError(
                f"{self.kind} column {name!r} is text; read it with strings({name!r}) or codes({name!r})"
            )
        return self._array(name)

    def codes(self, name: str) -> Array:
        """A text column as int32 indices into `vocabulary`, one per row; -1 is no text."""
        if name not in self._text and name in self._columns:
            raise TypeError(f"{self.kind} column {name!r} is not text; read it with column({name!r})")
        return self._array(name)

    def strings(self, name: str) -> list[str]:
        """A text column as one str per row; no text is the empty string."""
        words = [*self.vocabulary, ""]  # the last entry is what code -1 picks
        return [words[code] for code in self.codes(name).tolist()]

    def matches(self, name: str, text: str) -> Array:
        """Mask of the rows whose text column holds exactly this text."""
        codes = self.codes(name)
        try:
            code = self.vocabulary.index(text) if text else NO_TEXT
        except ValueError:
            return np.zeros(len(self), dtype=bool)
        return codes == code

    def where(self, rows: Array) -> Table:
        """The rows chosen by a boolean mask or an index array."""
        rows = np.asarray(rows)
        columns = {name: take(array, rows) for name, array in self._columns.items()}
        return Table(self.kind, columns, self._text, self.vocabulary)

    def with_columns(self, changed: Mapping[str, Array], vocabulary: Sequence[str]) -> Table:
        """The same table with some columns replaced (codes for text columns) and another vocabulary."""
        return Table(self.kind, {**self._columns, **changed}, self._text, vocabulary)

    def df(self) -> pandas.DataFrame:
        import pandas

        # dtype object: pandas' own text type refuses names that are not valid Unicode, and names are data.
        words = np.array([*self.vocabulary, ""], dtype=object)
        return pandas.DataFrame(
            {
                name: pandas.Series(words[array], dtype=object) if name in self._text else array
                for name, array in self._columns.items()
            }
        )

    def _array(self, name: str) -> Array:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"{self.kind} has no column {name!r}; it has {', '.join(self.columns)}") from None


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything one profile recorded."""

    header: TraceHeader
    tables: Mapping[str, Table] = field(default_factory=dict)
    signatures: tuple[Signature, ...] = ()
    graphs: tuple[GraphSpec, ...] = ()
    stacks: tuple[tuple[Frame, ...], ...] = ()

    def table(self, kind: Kind | str) -> Table:
        """The events of one kind; a table without rows when there are none."""
        found = self.tables.get(kind)
        return Table.empty(kind) if found is None else found

    def kinds(self) -> tuple[Kind | str, ...]:
        """The kinds that have events. A kind this version does not know is a plain str."""
        return tuple(table.kind for table in self.tables.values() if len(table))

    def __len__(self) -> int:
        """Number of events."""
        return sum(map(len, self.tables.values()))

    def __bool__(self) -> bool:
        return True  # a trace without events is still a trace

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(self.table(kind))} {kind}" for kind in self.kinds())
        return f"<Trace {self.header.name!r}: {counts or 'no events'}>"

    @property
    def size_bytes(self) -> int:
        """Memory of all tables."""
        return sum(table.size_bytes for table in self.tables.values())

    def df(self, kind: Kind | str) -> pandas.DataFrame:
        """One kind's events as a pandas DataFrame; text columns hold str."""
        return self.table(kind).df()

    @staticmethod
    def merge(traces: Sequence[Trace]) -> Trace:
        """All events of all traces in one, told apart by rank; ranks that collide are numbered anew."""
        from neuron_lab.trace.merge import merge  # merging builds a Trace, so that module stands above this one

        return merge(traces)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view
