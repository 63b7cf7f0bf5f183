"""Encodes in event ids which rows an event stream has sent."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

EVENT_ID_PATTERN: Final = r"[0-9]{1,12}(\.[0-9a-f]{1,16})?(-end)?"
_END: Final = "-end"
_EVENT_ID: Final = re.compile(EVENT_ID_PATTERN)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The number of announced rows, a bit set of the final rows of a search, and whether it ended.

    Rows of a crawl are final when they become visible, in order, so their number suffices. Rows of
    a search become visible together when they are ranked, and final in any order.
    """

    announced: int = 0
    final: int = 0
    ended: bool = False

    @classmethod
    def parse(cls, event_id: str) -> StreamPosition:
        """Parse an event id; raises `ValueError` if it is invalid."""
        if not _EVENT_ID.fullmatch(event_id):
            raise ValueError("must be the id of an event of this stream")
        rows = event_id.removesuffix(_END)
        announced, _, final = rows.partition(".")
        return cls(int(announced), int(final or "0", 16), ended=rows != event_id)

    def id(self) -> str:
        """Return the event id from which the stream resumes at this position."""
        rows = f"{self.announced}.{self.final:x}" if self.final else str(self.announced)
        return rows + _END if self.ended else rows

    def end(self) -> StreamPosition:
        """Return the position after the `done` event."""
        return replace(self, ended=True)

    def is_final(self, position: int) -> bool:
        """Whether the `page` event of a search's row was sent."""
        return bool(self.final >> position & 1)

    def announce(self, position: int) -> StreamPosition:
        """Return the position after the rows up to `position` are announced."""
        return StreamPosition(position + 1, self.final)

    def finish(self, position: int) -> StreamPosition:
        """Return the position after the `page` event of a search's row."""
        return StreamPosition(self.announced, self.final | 1 << position)
