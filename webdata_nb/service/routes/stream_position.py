"""How much of a job's rows a reader of its event stream has been told of. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

FORM: Final = r"[0-9]{1,12}(\.[0-9a-f]{1,16})?"
_FORM: Final = re.compile(FORM)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Rows that were announced, and as bits which of a search's were told to be final.

    Rows of a crawl are final when they become visible, in their order: their number is enough.
    Rows of a search become visible together, when they are ranked, and final in any order.
    """

    announced: int = 0
    final: int = 0

    @classmethod
    def parse(cls, event_id: str) -> StreamPosition:
        """Read the id of an event; raises ValueError where it is none."""
        if not _FORM.fullmatch(event_id):
            raise ValueError("must be the id of an event of this stream")
        announced, _, final = event_id.partition(".")
        return cls(int(announced), int(final or "0", 16))

    def id(self) -> str:
        """Return the id of an event behind which the stream goes on from here."""
        return f"{self.announced}.{self.final:x}" if self.final else str(self.announced)

    def has(self, position: int) -> bool:
        """Tell whether the row of a search was told to be final."""
        return bool(self.final >> position & 1)

    def announce(self, position: int) -> StreamPosition:
        """Return the place once rows up to `position` are announced."""
        return StreamPosition(position + 1, self.final)

    def finish(self, position: int) -> StreamPosition:
        """Return the place once the row of a search is told to be final."""
        return StreamPosition(self.announced, self.final | 1 << position)
