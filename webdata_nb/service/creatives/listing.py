"""Lists one page of an advertiser's creatives within the deadline of the call.

The settings of a session or server select the source of creatives. The cursor of a listing wraps
that of the source, and is signed: it is bound to the account and the filters of the listing that it
continues, and expires after a day. It holds hashes of the source's earlier cursors to detect a
source that repeats them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from webdata_nb.contract.local import SOURCES, Creatives
from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.service.creatives import enrich, google, meta, sample
from webdata_nb.service.creatives.enrich import (
    Enricher,
    EnrichmentCounts,
    EnrichmentOptions,
    FileStore,
    OcrPool,
    creative_row,
)
from webdata_nb.service.creatives.source import (
    OVERLOAD_PAUSE_S,
    Advertiser,
    BadCursor,
    CallDeadline,
    CreativesFilters,
    CreativesQuery,
    CreativesSource,
    SourceClient,
    SourceFetchers,
    days_of_range,
    parse_filters,
)
from webdata_nb.service.errors import MissingSetting, SourceError
from webdata_nb.service.private_files import create_private_file
from webdata_nb.service.web.throttle import HostThrottle

LIFETIME_S: Final = 24 * 3600.0
_MAC_BYTES: Final = 32
_CURSOR_HASH_BYTES: Final = 6
_MAX_CURSOR_HASHES: Final = 128
_SECRET_BYTES: Final = 32


class ListingPosition(msgspec.Struct, frozen=True):
    """A position in a listing: the source's cursor, the count of earlier rows, and its days.

    The days are those of the first request, so that "last 7 days" means the same on every page.
    `cursor_hashes` are the concatenated hashes of the source's earlier cursors.
    """

    source_cursor: str
    rows_before: int
    first_day: str | None
    last_day: str | None
    expires_at: float
    cursor_hashes: bytes = b""

    @property
    def is_repeated(self) -> bool:
        """Whether the source gave this cursor before."""
        step = _CURSOR_HASH_BYTES
        earlier = (
            self.cursor_hashes[start : start + step]
            for start in range(0, len(self.cursor_hashes), step)
        )
        return _cursor_hash(self.source_cursor) in earlier

    def advance(self, source_cursor: str, count: int) -> ListingPosition:
        """Return the position after a page of `count` rows, which ended with `source_cursor`."""
        hashes = self.cursor_hashes + _cursor_hash(self.source_cursor)
        return msgspec.structs.replace(
            self,
            source_cursor=source_cursor,
            rows_before=self.rows_before + count,
            cursor_hashes=hashes[-_CURSOR_HASH_BYTES * _MAX_CURSOR_HASHES :],
        )


def _cursor_hash(cursor: str) -> bytes:
    return hashlib.sha256(cursor.encode()).digest()[:_CURSOR_HASH_BYTES]


@dataclass(frozen=True, slots=True)
class CursorSealer:
    """Signs and verifies cursors with the server's secret."""

    secret: bytes

    @classmethod
    def load_or_create(cls, data_dir: Path) -> CursorSealer:
        """Return the sealer of a data directory; its secret is created once."""
        path = data_dir / "cursor.secret"
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):  # the first of two writers wins
                create_private_file(path, secrets.token_bytes(_SECRET_BYTES))
        return cls(path.read_bytes())

    @classmethod
    def derive(cls, key: str) -> CursorSealer:
        """Return the sealer that every process with the same encryption key has."""
        return cls(hmac.digest(key.encode(), b"cursors of creatives", "sha256"))

    def seal(
        self, position: ListingPosition, *, account_id: str, filters: Mapping[str, Any]
    ) -> str:
        """Return the cursor that leads to `position`."""
        body = msgspec.msgpack.encode(position)
        mac = self._mac(body, account_id, filters)
        return base64.urlsafe_b64encode(mac + body).rstrip(b"=").decode()

    def open(
        self, cursor: str, *, account_id: str, filters: Mapping[str, Any], now: float
    ) -> ListingPosition:
        """Return the position that a cursor leads to; raises `BadCursor`."""
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            decoded = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise BadCursor("this is not a cursor of this service") from None
        if len(decoded) <= _MAC_BYTES:
            raise BadCursor("this is not a cursor of this service")
        mac, body = decoded[:_MAC_BYTES], decoded[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body, account_id, filters)):
            raise BadCursor(
                "this cursor was altered, or belongs to another listing (advertiser, region and "
                "date_range must stay the same), account or service"
            )
        position = msgspec.msgpack.decode(body, type=ListingPosition)
        if now >= position.expires_at:
            raise BadCursor("this cursor has expired")
        if position.is_repeated:
            raise BadCursor("the source repeated an earlier cursor, so the listing would not end")
        return position

    def _mac(self, body: bytes, account_id: str, filters: Mapping[str, Any]) -> bytes:
        binding = orjson.dumps([account_id, dict(filters)], option=orjson.OPT_SORT_KEYS)
        return hmac.digest(self.secret, hashlib.sha256(binding).digest() + body, "sha256")


_NO_SOURCE: Final = (
    "no source of creatives is chosen: set creatives_source (WEBDATA_CREATIVES_SOURCE) to "
    f"{' or '.join(SOURCES)}; the sample's advertisers, {' and '.join(sample.advertiser_ids())}, "
    "need no setting"
)
_TERMS_NOT_ACCEPTED: Final = (
    f"{google.NAME} is not an official interface, and its terms ({google.TERMS}) allow use for "
    "information and research only: set creatives_terms (WEBDATA_CREATIVES_TERMS) to that "
    "address to say that you accept them"
)
_NO_TOKEN: Final = (
    f"{meta.NAME} needs the token of a confirmed account ({meta.TERMS}): set "
    "WEBDATA_META_AD_LIBRARY_KEY, or providers['meta_ad_library']"
)


@dataclass(frozen=True, slots=True)
class SourceFactory:
    """Creates a source for each call; `delay_s` is the least time between requests to Google."""

    throttle: HostThrottle = field(default_factory=HostThrottle)
    delay_s: float = google.MIN_DELAY_S
    overload_pause_s: float = OVERLOAD_PAUSE_S

    def create(
        self, settings: Creatives, fetchers: SourceFetchers, deadline: CallDeadline
    ) -> CreativesSource:
        """Return the selected source; raises `MissingSetting` if a setting is missing."""
        match settings.source:
            case sample.NAME:
                return sample.SampleSource(_today())
            case google.NAME:
                if (settings.terms or "").rstrip("/") != google.TERMS:
                    raise MissingSetting(_TERMS_NOT_ACCEPTED)
                client = SourceClient(
                    google.NAME,
                    fetchers,
                    self.throttle,
                    deadline,
                    self.delay_s,
                    self.overload_pause_s,
                )
                return google.GoogleTransparencyCenter(
                    client, (settings.url or google.HOME).rstrip("/")
                )
            case meta.NAME:
                if not settings.key:
                    raise MissingSetting(_NO_TOKEN)
                client = SourceClient(
                    meta.NAME,
                    fetchers,
                    self.throttle,
                    deadline,
                    0.0,
                    self.overload_pause_s,
                    key=settings.key,
                    key_advice=meta.KEY_ADVICE,
                )
                home = (settings.url or meta.HOME).rstrip("/")
                return meta.MetaAdLibrary(client, settings.key, home)
        raise MissingSetting(_NO_SOURCE)


MAX_CURSOR_LENGTH: Final = 4096


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of rows, with the counts of successful enrichments and of failed rows."""

    source: str
    filters: CreativesFilters
    rows: list[dict[str, Any]]
    cursor: str | None
    counts: EnrichmentCounts
    failed: int


@dataclass(frozen=True, slots=True)
class CreativesListing:
    """Answers creatives calls for all accounts."""

    sources: SourceFactory
    sealer: CursorSealer
    files: FileStore
    ocr_pool: OcrPool

    async def list_page(
        self,
        request: CreativesRequest,
        *,
        account_id: str,
        settings: Creatives,
        fetchers: SourceFetchers,
    ) -> ListedPage:
        """Answer one call.

        Raises
        ------
        BadInput
            A region, cursor or advertiser that the source does not support.
        MissingSetting
            No source is chosen, its terms are not accepted, or no OCR engine is installed.
        SourceError
            The source gave no page; its subclasses say why.
        """
        deadline = CallDeadline.after(request.timeout_ms / 1000)
        filters = parse_filters(request)
        engine = enrich.find_engine() if request.ocr else ""
        source: CreativesSource
        # The sample's advertisers need no setting; no real advertiser has their ids.
        if settings.source is None and filters.advertiser_id in sample.advertiser_ids():
            source = sample.SampleSource(_today())
        else:
            source = self.sources.create(settings, fetchers, deadline)
        # A cursor is bound to the account and to these.
        fields = filters.cursor_fields(source.name)
        position: ListingPosition | None = None
        if request.cursor is not None:
            position = self.sealer.open(
                request.cursor, account_id=account_id, filters=fields, now=time.time()
            )
        if position is None:
            first_day, last_day = days_of_range(filters.date_range, _today())
        else:  # later pages keep the days of the first page
            days = (position.first_day, position.last_day)
            first_day, last_day = (None if day is None else date.fromisoformat(day) for day in days)
        query = CreativesQuery(
            filters.advertiser_id,
            filters.region,
            first_day,
            last_day,
            request.limit,
            position.source_cursor if position else None,
        )
        page = await source.list_page(query)
        enricher = Enricher(
            source,
            EnrichmentOptions.of_request(request),
            self.files,
            self.ocr_pool,
            account_id,
            deadline,
            engine,
        )
        enrichments = await enricher.enrich(page.creatives)
        start = position.rows_before if position else 0
        rows = [
            creative_row(creative, number, enrichment)
            for number, (creative, enrichment) in enumerate(
                zip(page.creatives, enrichments, strict=True), start=start + 1
            )
        ]
        cursor: str | None = None
        if page.cursor is not None:
            count = len(page.creatives)
            if position is None:
                following = ListingPosition(
                    page.cursor,
                    count,
                    first_day=_iso_day(first_day),
                    last_day=_iso_day(last_day),
                    expires_at=time.time() + LIFETIME_S,
                )
            else:
                following = position.advance(page.cursor, count)
            cursor = self.sealer.seal(following, account_id=account_id, filters=fields)
            if len(cursor) > MAX_CURSOR_LENGTH:
                raise SourceError("the source's cursor is too long to be handed on")
        failed = sum("error" in row for row in rows)
        return ListedPage(source.name, filters, rows, cursor, enricher.counts, failed)

    async def find_advertisers(
        self,
        name_or_domain: str,
        *,
        limit: int,
        settings: Creatives,
        fetchers: SourceFetchers,
        timeout_ms: int,
    ) -> tuple[str, list[Advertiser]]:
        """Return the name of the source, and its advertisers that match a name or domain."""
        name_or_domain = name_or_domain.strip()
        if settings.source is None:
            sample_source = sample.SampleSource(_today())
            if matches := await sample_source.find_advertisers(name_or_domain, limit=limit):
                return sample.NAME, matches
        deadline = CallDeadline.after(timeout_ms / 1000)
        source = self.sources.create(settings, fetchers, deadline)
        return source.name, await source.find_advertisers(name_or_domain, limit=limit)


def _today() -> date:
    return datetime.now(UTC).date()


def _iso_day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()
