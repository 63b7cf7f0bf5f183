"""Defines the interface of a source of creatives, its queries and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Protocol

from webdata_nb.service.creatives.regions import GeoRegion


@dataclass(frozen=True, slots=True)
class CreativesQuery:
    """Selects one page of an advertiser's creatives; `cursor` is the source's own."""

    advertiser_id: str
    region: GeoRegion | None = None
    first_day: date | None = None
    last_day: date | None = None
    limit: int = 40
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class AdCreative:
    """One advertisement. Times are ISO 8601 in UTC, and unknown values are None.

    `error` says why a row of the source could not be read.
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
class CreativesPage:
    """A page of creatives; `cursor` is the source's own, None on the last page."""

    creatives: tuple[AdCreative, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Advertiser:
    """An advertiser that matches a name or domain; ad counts are None where unknown."""

    advertiser_id: str
    name: str
    region: str | None = None
    domain: str | None = None
    ads_min: int | None = None
    ads_max: int | None = None


class CreativesSource(Protocol):
    """A public source of creatives.

    Every method raises a `SourceError` if the source gives no usable reply, and `BadInput` if the
    source does not support the request.
    """

    @property
    def name(self) -> str:
        """The name that selects the source in the settings."""

    async def list_page(self, query: CreativesQuery) -> CreativesPage:
        """Return a page of creatives, newest first; raises `BadCursor` for an expired cursor."""

    async def with_details(self, creative: AdCreative) -> AdCreative:
        """Return the creative with all `DETAILS` that the source has."""

    async def picture_url(self, creative: AdCreative) -> str | None:
        """Return the URL of a picture of the creative; None if there is only an HTML page."""

    async def download(self, url: str) -> bytes:
        """Return a file that the source named in a creative; other URLs are refused."""

    async def find_advertisers(self, name_or_domain: str, *, limit: int) -> list[Advertiser]:
        """Return the advertisers that match a name or a domain, best match first."""
