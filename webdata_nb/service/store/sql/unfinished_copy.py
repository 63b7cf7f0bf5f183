"""The record of a copy in its target, which keeps services away until it is complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

import orjson

from webdata_nb.service.errors import UnfinishedCopy

# The name of the record among the store's settings.
COPY_TARGET: Final = "copy target"


@dataclass(frozen=True, slots=True)
class CopyRecord:
    """A copy of a source: its schema, and how far each table was copied.

    Attributes
    ----------
    positions
        The number of the last copied row, and of copied rows, by table.
    """

    source: str
    schema: int
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    finished: bool = False

    @property
    def text(self) -> str:
        """The record as it is stored."""
        return orjson.dumps(asdict(self)).decode()

    def advance(self, table: str, last_row: int, row_count: int) -> CopyRecord:
        """Return the record after a batch of a table."""
        return replace(self, positions={**self.positions, table: (last_row, row_count)})

    def finish(self) -> CopyRecord:
        """Return the record of the complete copy."""
        return replace(self, finished=True)


def check_finished(text: str) -> None:
    """Raise `UnfinishedCopy` unless the copy of a stored record is complete."""
    if not CopyRecord(**orjson.loads(text)).finished:
        raise UnfinishedCopy(
            "`webdata store copy` to this database is not complete: run it again, then start"
        )
