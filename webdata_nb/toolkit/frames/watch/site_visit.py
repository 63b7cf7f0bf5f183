"""What one crawl of a watched site found: the pages that it read, and outcomes of other URLs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from webdata_nb.contract import outcomes
from webdata_nb.toolkit.frames import frame, receipt

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.contract.replies import ReceiptEntry
    from webdata_nb.toolkit.frames.watch.fields import WatchedFields

# A crawl with such URLs has not seen every link, or not every page that a sitemap names.
_LEFT_OUT: Final = (
    outcomes.OVER_MAX_PAGES,
    "over_requests",
    "over_urls",
    outcomes.ROBOTS_UNREACHABLE,
    "sitemap",
    "llms_txt",
)
# URLs that are not pages of the site, or not part of the request.
_ELSEWHERE: Final = frozenset(
    {"scope", "filtered", "sitemap", "llms_txt", outcomes.DAMAGED_ARCHIVE}
)
_GONE: Final = frozenset({"failed:http_404", "failed:http_410"})
_COPIES: Final = frozenset({"duplicate", "canonical", "facet"})
_REDIRECTS: Final = "redirects to "
_MAX_REASON_CHARS: Final = 500


class SeenUrl(NamedTuple):
    """The outcome of a URL that is no page of a crawl, with its detail, as in the receipt."""

    outcome: str
    detail: str = ""

    @property
    def is_duplicate(self) -> bool:
        """Whether it has the content of the page in `detail`."""
        return self.outcome == "duplicate"

    @property
    def is_copy(self) -> bool:
        """Whether it is another address of a page. Which one is a row depends on the links."""
        return self.outcome in _COPIES

    @property
    def is_no_page(self) -> bool:
        """Whether the site says that there is no page of its own at this URL."""
        redirects_elsewhere = self.outcome == "scope" and self.detail.startswith(_REDIRECTS)
        return self.outcome in _GONE or self.outcome == "redirect" or redirects_elsewhere

    @property
    def has_failed(self) -> bool:
        """Whether it could not be read, and may be another time."""
        return self.outcome.startswith(outcomes.FAILED) and not self.is_no_page

    @property
    def is_of_site(self) -> bool:
        """Whether it belongs to what the crawl was asked for."""
        return self.outcome not in _ELSEWHERE

    def reason(self) -> str:
        """Return what the site says, as a clause."""
        text = f"{_REDIRECTS}{self.detail}" if self.outcome == "redirect" else self.detail
        return (text or self.outcome)[:_MAX_REASON_CHARS]


@dataclass(frozen=True, slots=True)
class PageVersion:
    """A page as a crawl read it; `quotes` are the places of extracted values in it."""

    url: str
    final_url: str
    content_hash: str | None
    fetched_at: datetime
    job_id: str
    values: Mapping[str, str | None]
    quotes: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class SiteVisit:
    """One crawl of a site.

    Attributes
    ----------
    job_id, at
        The crawl, and when it ended.
    pages
        The pages that were read, in the order of the crawl.
    others
        Every other URL that the crawl saw.
    is_whole
        Whether no limit ended the crawl, and all of its links and sitemaps are known.
    """

    job_id: str
    at: datetime
    pages: tuple[PageVersion, ...]
    others: Mapping[str, SeenUrl]
    is_whole: bool

    @classmethod
    def of_crawl(
        cls, crawl: pd.DataFrame, entries: Iterable[ReceiptEntry] | None, fields: WatchedFields
    ) -> SiteVisit:
        """Return what a crawl found; `entries` are its full receipt, None if that is missing."""
        attrs = crawl.attrs[frame.ATTRS]
        job_id, at = str(attrs["job_id"]), receipt.finished_at(attrs)
        pages: list[PageVersion] = []
        others: dict[str, SeenUrl] = {}
        for row in fields.rows(crawl):
            if row["success"] is False:
                others[row["url"]] = _failure(row)
            else:
                pages.append(_page(row, fields, job_id, at))
        read = {page.url for page in pages}
        others |= {e.url: SeenUrl(e.outcome, e.detail) for e in entries or () if e.url not in read}
        counts: Mapping[str, int] = attrs.get("receipt", {}).get("counts", {})
        is_cut = any(counts.get(name) for name in _LEFT_OUT)
        return cls(job_id, at, tuple(pages), others, entries is not None and not is_cut)


def _failure(row: Mapping[str, Any]) -> SeenUrl:
    """Return the outcome of a failed row, which stands where the receipt is missing."""
    status = row["status_code"]
    return SeenUrl(f"failed:http_{status}" if status else "failed:", row["error"] or "")


def _page(row: Mapping[str, Any], fields: WatchedFields, job_id: str, at: datetime) -> PageVersion:
    metadata = row.get("metadata")
    final_url = metadata.get("final_url") if isinstance(metadata, dict) else None
    return PageVersion(
        row["url"],
        final_url or row["url"],
        row["content_hash"],
        row["fetched_at"] or at,
        job_id,
        fields.values(row),
        fields.quotes(row),
    )
