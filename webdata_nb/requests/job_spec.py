"""Defines the job of a call: a request of the contract and the columns of its frame."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from webdata_nb.contract.fields import Strict
from webdata_nb.contract.requests import CrawlRequest, CreativesRequest, SearchRequest
from webdata_nb.frames import schemas
from webdata_nb.requests import arguments

if TYPE_CHECKING:
    from webdata_nb.frames.schemas import TableName

# Options of a search that say how result pages are visited.
FOR_PAGES: Final = (
    "format_options",
    "only_main_content",
    "mobile",
    "mobile_device",
    "headers",
    "cookies",
    "extract",
)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One request to the service and the columns of its frame; picklable.

    `assumed` says whether every service has the contract's defaults, so that an omitted argument
    and its default share one cache entry. `total` is the expected number of rows where it is known.
    `max_rows` limits a listing of creatives; `only_new` omits the creatives of the cached answer.
    """

    op: TableName
    request: Strict
    subject: str
    columns: tuple[str, ...]
    total: int | None = None
    assumed: bool = False
    max_rows: int | None = None
    only_new: bool = False

    @property
    def brief(self) -> bool:
        """Whether its rows are few and small: a search that visits no page."""
        return isinstance(self.request, SearchRequest) and not self.request.formats

    @classmethod
    def search(cls, **given: Any) -> Self:
        """Return the search that these arguments make; raises as `arguments.request`."""
        request = arguments.request(SearchRequest, **given)
        _warn_without_effect(request)
        visits = bool(request.formats)
        columns = schemas.shown(
            "search",
            formats=request.formats,
            extract=visits and request.extract is not None,
            metadata=visits,
        )
        # The contract states every default of a search, so they hold wherever it runs.
        return cls("search", request, request.query, columns, request.num_results, assumed=True)

    @classmethod
    def crawl(cls, **given: Any) -> Self:
        """Return the crawl that these arguments make; raises as `arguments.request`."""
        request = arguments.request(CrawlRequest, **given)
        scraped = request.scrape_options
        columns = schemas.shown(
            "crawl", formats=scraped.formats, extract=scraped.extract is not None, metadata=True
        )
        # How many pages there are is for the site to say; a start page is always a row.
        total = 1 if request.max_pages == 1 else None
        return cls("crawl", request, arguments.unlocked(request.url), columns, total)

    @classmethod
    def creatives(
        cls,
        advertiser: object,
        max_rows: int | None = None,
        *,
        only_new: bool = False,
        **given: Any,
    ) -> Self:
        """Return the listing that these arguments make; raises as `arguments.request`."""
        request = arguments.request(CreativesRequest, **_named(advertiser), **given)
        most = None if max_rows is None else arguments.whole("max_rows", max_rows, least=1)
        columns = schemas.shown_creatives(_enrichment(request))
        return cls(
            "creatives",
            request,
            request.advertiser,
            columns,
            most,
            max_rows=most,
            only_new=arguments.flag("only_new", only_new),
        )

    @property
    def body(self) -> dict[str, Any]:
        """What goes over the wire."""
        return arguments.body(self.request)

    @property
    def public(self) -> dict[str, Any]:
        """What receipts and files may tell of it."""
        told = arguments.public(self.request)
        return told if self.max_rows is None else {**told, "max_rows": self.max_rows}

    def params(self, *, local: bool) -> dict[str, Any]:
        """Return what decides the answer, secret parts included."""
        whole = self.assumed or local
        params = arguments.deciding(arguments.resolved(self.request) if whole else self.body)
        return params if self.max_rows is None else {**params, "max_rows": self.max_rows}


def _named(advertiser: object) -> dict[str, object]:
    """Return the contract's field for what names the advertiser."""
    is_url = isinstance(advertiser, str) and "://" in advertiser
    return {"url": advertiser} if is_url else {"advertiser_id": advertiser}


def _enrichment(request: CreativesRequest) -> set[str]:
    """Return the kinds of enrichment that a request asks for; assets need the details."""
    kinds = {
        "details": not request.skip_details or request.should_download_assets,
        "assets": request.should_download_assets,
        "previews": request.should_download_previews,
        "ocr": request.ocr,
    }
    return {kind for kind, wanted in kinds.items() if wanted}


def _warn_without_effect(request: SearchRequest) -> None:
    idle = [name for name in FOR_PAGES if name in request.model_fields_set]
    if idle and not request.formats:
        warnings.warn(
            f"{', '.join(idle)} without effect: formats=[] visits no result page", stacklevel=2
        )
