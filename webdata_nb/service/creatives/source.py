"""What a source of creatives is asked, and what it answers: the seam between us and the outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Protocol

from webdata_nb.service.creatives.regions import Region


@dataclass(frozen=True, slots=True)
class Ask:
    """One page of one advertiser's creatives; `cursor` is the source's own."""

    advertiser_id: str
    region: Region | None = None
    first_day: date | None = None
    last_day: date | None = None
    limit: int = 40
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Creative:
    """One advertisement, as far as it is known. Times are ISO 8601 in UTC.

    A creative that could not be read is one all the same: `error` says why.
    """

    advertiser_id: str
    creative_id: str
    preview_url: str | None = None
    advertiser_name: str | None = None
    format: str | None = None
    first_shown: str | None = None
    last_shown: str | None = None
    days_shown: int | None = None
    political: bool | None = None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


DETAILS = (
    "regions",
    "impressions_min",
    "impressions_max",
    "landing_domain",
    "asset_urls",
    "headline",
    "description",
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of creatives; `cursor` is the source's own, None on the last page."""

    creatives: tuple[Creative, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Advertiser:
    """An advertiser that a name or domain may mean; counts of ads where the source gives them."""

    advertiser_id: str
    name: str
    region: str | None = None
    domain: str | None = None
    ads_min: int | None = None
    ads_max: int | None = None


class Source(Protocol):
    """A public source of creatives.

    Every method raises a `SourceError` if the source gives no usable reply, and `BadInput` if the
    source does not support the request.
    """

    @property
    def name(self) -> str:
        """The name by which settings choose it."""

    async def page(self, ask: Ask) -> Page:
        """Return a page of creatives, newest first; raises `StaleCursor` for a cursor gone by."""

    async def detailed(self, creative: Creative) -> Creative:
        """Return the creative with everything in `DETAILS` that the source tells."""

    async def picture_url(self, creative: Creative) -> str | None:
        """Return where a picture of the creative is; None where there is only a page."""

    async def file(self, url: str) -> bytes:
        """Return a file that the source named in a creative, and no other."""

    async def advertisers(self, query: str, *, limit: int) -> list[Advertiser]:
        """Return who a name or a domain may mean, best first."""
