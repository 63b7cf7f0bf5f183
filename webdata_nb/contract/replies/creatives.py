"""Models of replies about advertiser creatives and advertisers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, Rows, RowsOf, SuccessReply


class StoredFile(Reply):
    """A downloaded file (ours), available at `CREATIVES_FILE` by its hash."""

    url: str = Field(description="URL of the file.")
    sha256: str | None = Field(
        default=None,
        description="SHA-256 of its bytes in hexadecimal, which identifies the file; null "
        "if it is not stored.",
    )
    mime: str | None = Field(default=None, description="Media type of the file.")
    bytes: int | None = Field(default=None, description="Size of the file, in bytes.")
    width: int | None = Field(default=None, description="Width of the picture, in pixels.")
    height: int | None = Field(default=None, description="Height of the picture, in pixels.")
    error: str | None = Field(default=None, description="Why it is not stored; null if it is.")


class Creative(Reply):
    """One advertising creative; all but the first four fields are extensions, present if known.

    The fields from `regions` come with details, `assets` and `preview` with downloads, `text` with
    OCR. `error` is why a creative could not be read or enriched.
    """

    position: int = Field(description="Position in the advertiser's list, from 1.")
    advertiser_id: str = Field(description="The advertiser's id at the source.")
    creative_id: str = Field(description="The creative's id at the source.")
    preview_url: str | None = Field(default=None, description="URL of the source's preview.")
    advertiser_name: str | None = Field(default=None, description="Name of the advertiser.")
    format: str | None = Field(default=None, description="`text`, `image` or `video`.")
    first_shown: datetime | None = Field(default=None, description="When it was first shown (UTC).")
    last_shown: datetime | None = Field(default=None, description="When it was last shown (UTC).")
    days_shown: int | None = Field(default=None, description="Days on which it was shown.")
    political: bool | None = Field(
        default=None, description="Whether the source marks it as political."
    )
    error: str | None = Field(
        default=None, description="What could not be read or added; null without an error."
    )
    regions: list[str] | None = Field(default=None, description="Where it was shown.")
    impressions_min: int | None = Field(default=None, description="Impressions at least.")
    impressions_max: int | None = Field(default=None, description="Impressions at most.")
    landing_domain: str | None = Field(default=None, description="Domain of its landing page.")
    asset_urls: list[str] | None = Field(
        default=None, description="URLs of its pictures and videos."
    )
    assets: list[StoredFile] | None = Field(
        default=None, description="Its stored pictures and videos."
    )
    preview: StoredFile | None = Field(
        default=None, description="The stored picture of the creative."
    )
    text: str | None = Field(default=None, description="Text read from its pictures.")
    text_confidence: float | None = Field(
        default=None, description="Confidence of the OCR, from 0 to 1."
    )
    headline: str | None = Field(default=None, description="Headline of the ad.")
    description: str | None = Field(default=None, description="Text of the ad.")


class CreativesReply(SuccessReply):
    """A page of creatives; `cursor` if another page exists.

    `provider` and `date_range` are extensions: the source, and the requested days.
    """

    source: str = Field(
        default="partner_ads_transparency", description="Always `partner_ads_transparency`."
    )
    operation: str = Field(default="creatives", description="Always `creatives`.")
    advertiser_id: str = Field(description="The advertiser's id at the source.")
    region: str | None = Field(default=None, description="Requested region.")
    total_results: int = Field(default=0, description="Creatives of this page.")
    time_taken: float | None = Field(default=None, description="Duration of the call in seconds.")
    creatives: Annotated[Rows, RowsOf(Creative)] = Field(
        default_factory=list, description="The creatives, in the source's order."
    )
    cursor: str | None = Field(
        default=None, description="Where the next page begins; absent on the last page."
    )
    provider: str | None = Field(default=None, description="Source of the creatives (ours).")
    date_range: str | None = Field(
        default=None,
        description="Requested days, as `YYYY-MM-DD..YYYY-MM-DD` (ours).",
    )


class AdvertiserMatch(Reply):
    """One advertiser that matches a name or domain (ours); `rank` from 1, best first."""

    rank: int = Field(description="Rank of the match, from 1.")
    advertiser_id: str = Field(description="The advertiser's id at the source.")
    name: str = Field(default="", description="Name of the advertiser.")
    region: str | None = Field(
        default=None, description="Country of the advertiser, as a two-letter code."
    )
    domain: str | None = Field(default=None, description="Domain of the advertiser.")
    ads_min: int | None = Field(default=None, description="Ads of the advertiser at least.")
    ads_max: int | None = Field(default=None, description="Ads of the advertiser at most.")


class AdvertisersReply(SuccessReply):
    """GET .../advertisers (ours)."""

    query: str = Field(description="Requested name or domain.")
    provider: str | None = Field(default=None, description="Source of the advertisers.")
    advertisers: list[AdvertiserMatch] = Field(
        default_factory=list, description="The advertisers, best match first."
    )
