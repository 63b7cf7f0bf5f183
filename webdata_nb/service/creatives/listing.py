"""One creatives call: from a request to a page of rows, within its time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from webdata_nb.contract.local import Creatives
from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.service.creatives import cursor as cursors
from webdata_nb.service.creatives import ocr, sample
from webdata_nb.service.creatives.cursor import Place, Seal
from webdata_nb.service.creatives.enrich import Done, Enricher, Wanted, row_of
from webdata_nb.service.creatives.files import FileStore
from webdata_nb.service.creatives.filters import Filters, days_of, filters_of
from webdata_nb.service.creatives.ocr import Readers
from webdata_nb.service.creatives.source import Advertiser, Ask, Page, Source
from webdata_nb.service.creatives.source_client import CallDeadline, SourceFetchers
from webdata_nb.service.creatives.sources import Sources
from webdata_nb.service.errors import SourceError

CURSOR_LENGTH: Final = 4096


@dataclass(frozen=True, slots=True)
class Answer:
    """A page of rows, and what was done for it."""

    source: str
    filters: Filters
    rows: list[dict[str, Any]]
    cursor: str | None
    done: Done
    failed: int


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose cursors these are, and what they are bound to."""

    account_id: str
    filters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """Answers creatives calls for all accounts."""

    sources: Sources
    seal: Seal
    files: FileStore
    readers: Readers

    async def page(
        self,
        request: CreativesRequest,
        *,
        account_id: str,
        chosen: Creatives,
        fetchers: SourceFetchers,
    ) -> Answer:
        """Answer one call.

        Raises
        ------
        BadInput
            A region, cursor or advertiser that the source cannot be asked for.
        MissingSetting
            No source is chosen, its terms are not accepted, or there is nothing to read with.
        SourceError
            The source gave no page; its subclasses say why.
        """
        deadline = CallDeadline.after(request.timeout_ms / 1000)
        filters = filters_of(request)
        engine = ocr.engine() if request.ocr else ""
        source = self._source(filters.advertiser_id, chosen, fetchers, deadline)
        owner = _Owner(account_id, filters.bound(source.name))
        place = self._place(request.cursor, owner)
        first_day, last_day = _days(place, filters)
        ask = Ask(
            filters.advertiser_id,
            filters.region,
            first_day,
            last_day,
            request.limit,
            place.source_cursor if place else None,
        )
        page = await source.page(ask)
        enricher = Enricher(
            source,
            Wanted.by(request),
            self.files,
            self.readers,
            account_id,
            deadline,
            engine,
        )
        added = await enricher.rows(page.creatives)
        start = place.position if place else 0
        rows = [
            row_of(creative, position, more)
            for position, (creative, more) in enumerate(
                zip(page.creatives, added, strict=True), start=start + 1
            )
        ]
        return Answer(
            source.name,
            filters,
            rows,
            self._next(page, place, ask, owner),
            enricher.done,
            sum("error" in row for row in rows),
        )

    async def advertisers(
        self,
        query: str,
        *,
        limit: int,
        chosen: Creatives,
        fetchers: SourceFetchers,
        timeout_ms: int,
    ) -> tuple[str, list[Advertiser]]:
        """Return the source asked, and who a name or domain may mean there."""
        deadline = CallDeadline.after(timeout_ms / 1000)
        if chosen.source is None and (
            invented := await sample.Sample(_today()).advertisers(query.strip(), limit=limit)
        ):
            return sample.NAME, invented
        source = self.sources.of(chosen, fetchers, deadline)
        return source.name, await source.advertisers(query.strip(), limit=limit)

    def _source(
        self,
        advertiser_id: str,
        chosen: Creatives,
        fetchers: SourceFetchers,
        deadline: CallDeadline,
    ) -> Source:
        # The invented advertisers are found whatever is set, and by nobody else's id.
        if chosen.source is None and advertiser_id in sample.advertiser_ids():
            return sample.Sample(_today())
        return self.sources.of(chosen, fetchers, deadline)

    def _place(self, cursor: str | None, owner: _Owner) -> Place | None:
        if cursor is None:
            return None
        return self.seal.opened(
            cursor, account_id=owner.account_id, filters=owner.filters, now=time.time()
        )

    def _next(self, page: Page, place: Place | None, ask: Ask, owner: _Owner) -> str | None:
        """Return the cursor of the page after this one."""
        if page.cursor is None:
            return None
        following = cursors.following(
            place,
            page.cursor,
            (place.position if place else 0) + len(page.creatives),
            first_day=ask.first_day and ask.first_day.isoformat(),
            last_day=ask.last_day and ask.last_day.isoformat(),
            expires_at=time.time() + cursors.LIFE_S,
        )
        sealed = self.seal.closed(following, account_id=owner.account_id, filters=owner.filters)
        if len(sealed) > CURSOR_LENGTH:
            raise SourceError("the source's cursor is too long to be handed on")
        return sealed


def _today() -> date:
    return datetime.now(UTC).date()


def _days(place: Place | None, filters: Filters) -> tuple[date | None, date | None]:
    """Return the days of a listing: those of its first page, on every page."""
    if place is None:
        return days_of(filters.date_range, _today())
    days = (place.first_day, place.last_day)
    first, last = (None if day is None else date.fromisoformat(day) for day in days)
    return first, last
