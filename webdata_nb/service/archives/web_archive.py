"""The interface of web archives: an index of captures, and the captures themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from webdata_nb.contract.replies import IndexOutcome
from webdata_nb.service.archives.archived_response import ArchivedResponse
from webdata_nb.service.archives.cdx import CdxCapture, CdxQuery
from webdata_nb.service.web.request import FetchLimits

_MIB: Final = 1024 * 1024
INDEX_LIMITS: Final = FetchLimits(wire_bytes=32 * _MIB, decoded_bytes=64 * _MIB, redirects=0)


@dataclass(frozen=True, slots=True)
class IndexPage:
    """A part of a listing: its captures, what became of the index, and the cursor of the next."""

    captures: Sequence[CdxCapture]
    index: str
    outcome: IndexOutcome = "listed"
    detail: str = ""
    cursor: str | None = None


class WebArchive(Protocol):
    """An archive that is queried over the network.

    Its methods raise `SourceError` where it gives no usable reply, and `FetchError` where a single
    reply cannot be used.
    """

    @property
    def name(self) -> str:
        """The name of the archive in messages."""

    async def list_captures(
        self, query: CdxQuery, *, limit: int, cursor: str | None = None
    ) -> IndexPage:
        """Return up to `limit` captures, from a cursor on; raises `InvalidCursor`."""

    async def read(self, capture: CdxCapture, limits: FetchLimits) -> ArchivedResponse:
        """Return a captured response.

        Raises
        ------
        FetchError
            Of kind ``not_archived`` where the archive lists a capture and does not have it.
        """

    def archive_url(self, capture: CdxCapture) -> str | None:
        """Return where the archive has a capture as it was sent."""


class InvalidCursor(Exception):
    """A cursor is not one of this archive."""
