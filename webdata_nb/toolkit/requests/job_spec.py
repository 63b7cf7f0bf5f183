"""Defines the job of a call: a request of the contract and the columns of its frame."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, cast

import orjson
from pydantic import ValidationError

from webdata_nb import caller
from webdata_nb.contract.archive_requests import (
    ArchiveCrawlRequest,
    DatedCrawlRequest,
    RecordedCrawlRequest,
)
from webdata_nb.contract.archives import file_version
from webdata_nb.contract.fields import Strict
from webdata_nb.contract.limits import MAX_PAGES_DEFAULT
from webdata_nb.contract.requests import (
    CrawlRequest,
    CreativesRequest,
    LongCrawlRequest,
    SearchRequest,
)
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import schemas
from webdata_nb.toolkit.requests import arguments, page_options
from webdata_nb.toolkit.requests.extract_schema import extract_request
from webdata_nb.toolkit.requests.options import (
    CrawlRequestOptions,
    CreativesOptions,
    DatedOptions,
    ResultPageOptions,
    SearchRequestOptions,
)
from webdata_nb.toolkit.requests.since import Since

if TYPE_CHECKING:
    from pathlib import Path

    from webdata_nb.toolkit.frames.schemas import TableName

_MODELS: Final[Mapping[str, type[SearchRequest | CrawlRequest | CreativesRequest]]] = {
    "search": SearchRequest,
    "crawl": CrawlRequest,
    "creatives": CreativesRequest,
}


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One request to the service and the columns of its frame; picklable.

    With `has_contract_defaults`, every service has the contract's defaults, so that an omitted
    argument and its default share one cache entry. `total` is the expected number of rows, if it is
    known. `max_rows` limits a listing of creatives; `only_new` omits the creatives of the cached
    answer. `since` makes a crawl incremental, which changes neither its rows nor its cache entry.
    """

    op: TableName
    request: Strict
    subject: str
    columns: tuple[str, ...]
    total: int | None = None
    has_contract_defaults: bool = False
    max_rows: int | None = None
    only_new: bool = False
    since: Since | None = None

    @property
    def has_credentials(self) -> bool:
        """Whether its URL has a user name and password, which `subject` masks."""
        request = self.request
        return isinstance(request, CrawlRequest) and request.subject != self.subject

    @property
    def brief(self) -> bool:
        """Whether its rows are few and small: a search that visits no page."""
        return isinstance(self.request, SearchRequest) and not self.request.formats

    @property
    def audits(self) -> bool:
        """Whether its frame has the columns of an audit."""
        return isinstance(self.request, CrawlRequest) and self.request.audit

    @classmethod
    def search(cls, query: str, **options: Unpack[SearchRequestOptions]) -> Self:
        """Build a search.

        Raises
        ------
        InvalidArgument
            The contract does not allow an option; nothing was sent.
        """
        extract = extract_request(options.get("extract"))
        values = {"query": query, **options, "extract": extract}
        request = arguments.build_request(SearchRequest, values)
        _warn_without_effect(request)
        visits = bool(request.formats)
        columns = schemas.frame_columns(
            "search",
            formats=request.formats,
            extract=visits and request.extract is not None,
            metadata=visits,
        )
        # The contract defines every default of a search, so every service has them.
        return cls(
            "search",
            request,
            _subject(request),
            columns,
            request.num_results,
            has_contract_defaults=True,
        )

    @classmethod
    def crawl(cls, url: str, **options: Unpack[CrawlRequestOptions]) -> Self:
        """Build a crawl; raises as `search`. One for an audit may be long."""
        if not options.get("audit"):
            return cls._crawl(CrawlRequest, url, options)
        max_pages = options.get("max_pages")
        options = {**options, "max_pages": MAX_PAGES_DEFAULT if max_pages is None else max_pages}
        return cls._crawl(LongCrawlRequest, url, options)

    @classmethod
    def long_crawl(cls, url: str, **options: Unpack[CrawlRequestOptions]) -> Self:
        """Build a crawl of more than 1,000 pages; raises as `search`."""
        return cls._crawl(LongCrawlRequest, url, options)

    @classmethod
    def archive_crawl(
        cls, archive: Path, url: str | None, **options: Unpack[CrawlRequestOptions]
    ) -> Self:
        """Build a crawl of an archive, from a URL or its first page; raises as `search`."""
        status = archive.stat()
        version = file_version(status.st_size, status.st_mtime_ns)
        source = {"archive": str(archive), "archive_version": version}
        return cls._crawl(ArchiveCrawlRequest, url, options, source)

    @classmethod
    def recorded_crawl(cls, url: str, warc: Path, **options: Unpack[CrawlRequestOptions]) -> Self:
        """Build a crawl that writes a WARC file; raises as `search`."""
        return cls._crawl(RecordedCrawlRequest, url, options, {"warc": str(warc)})

    @classmethod
    def dated_crawl(cls, url: str, **values: Any) -> Self:
        """Build a crawl of a site as an archive captured it; raises as `search`.

        `values` are the options of a crawl, and `as_of`, `source` and `max_distance`.
        """
        dated = {name: values.pop(name) for name in DatedOptions.__annotations__ if name in values}
        return cls._crawl(DatedCrawlRequest, url, cast("CrawlRequestOptions", values), dated)

    @classmethod
    def _crawl(
        cls,
        model: type[CrawlRequest],
        url: str | None,
        options: CrawlRequestOptions,
        source: Mapping[str, object] = MappingProxyType({}),
    ) -> Self:
        merged = page_options.merge({"url": url, **source, **options})
        request = arguments.build_request(model, merged.values, merged.argument_names)
        scraped = request.scrape_options
        columns = schemas.frame_columns(
            "crawl",
            formats=scraped.formats,
            extract=scraped.extract is not None,
            metadata=True,
            audit=request.audit,
            rights=request.reads_rights,
            dated=isinstance(request, DatedCrawlRequest),
        )
        # The site decides how many pages there are; the start page is always a row.
        total = 1 if request.max_pages == 1 else None
        return cls("crawl", request, _subject(request), columns, total)

    @classmethod
    def creatives(cls, advertiser: str, **options: Unpack[CreativesOptions]) -> Self:
        """Build a listing of an advertiser's creatives; raises as `search`."""
        max_rows, only_new = _max_rows(options), options.pop("only_new", False)
        request = arguments.build_request(CreativesRequest, {**_advertiser(advertiser), **options})
        return cls(
            "creatives",
            request,
            _subject(request),
            schemas.creatives_columns(_enrichment(request)),
            max_rows,
            max_rows=max_rows,
            only_new=arguments.check_flag("only_new", only_new),
        )

    def with_subject(self, fields: Mapping[str, Any]) -> Self:
        """Return the same request for the subject that `subject_fields` checked."""
        request = self.request.model_copy(update=fields)
        return replace(self, request=request, subject=_subject(request))

    @property
    def body(self) -> dict[str, Any]:
        """The body of the HTTP request."""
        return arguments.request_body(self.request)

    def idempotency_key(self, run_id: str) -> str:
        """Return the key under which every attempt of a run finds the same job.

        It does not depend on the position of an input, so equal inputs share a job.
        """
        added = {} if self.since is None else self.since.fields
        request = orjson.dumps([run_id, self.op, self.body | added], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(request).hexdigest()

    @property
    def public_request(self) -> dict[str, Any]:
        """The request without secrets, for receipts and files."""
        public = arguments.public_request(self.request)
        return public if self.max_rows is None else {**public, "limit": self.max_rows}

    def params(self, *, local: bool) -> dict[str, Any]:
        """Return the parameters that decide the answer, secrets included."""
        has_defaults = self.has_contract_defaults or local
        params = arguments.request_with_defaults(self.request) if has_defaults else self.body
        params = arguments.without_webhook(params)
        return params if self.max_rows is None else {**params, "max_rows": self.max_rows}


def _max_rows(options: CreativesOptions) -> int | None:
    """Take the number of rows at most from `options`; no page of them has more rows."""
    values = {"limit": options.pop("limit", None), "max_rows": options.pop("max_rows", None)}
    given = {
        name: arguments.check_integer(name, value, minimum=1)
        for name, value in values.items()
        if value is not None
    }
    if len(set(given.values())) > 1:
        raise InvalidArgument(
            f"limit={given['limit']} and max_rows={given['max_rows']} both say how many rows there "
            "are at most: pass limit"
        )
    return next(iter(given.values()), None)


def subject_fields(op: TableName, subject: object) -> dict[str, Any]:
    """Return the checked request fields of a query, URL or advertiser.

    Raises
    ------
    InvalidArgument
        The contract does not allow the subject.
    """
    model = _MODELS[op]
    if op == "creatives":
        fields = _advertiser(subject)
    else:
        fields = {"query" if op == "search" else "url": subject}
    try:
        request = model.model_validate(fields)
    except ValidationError:
        request = arguments.build_request(model, fields)
    if isinstance(request, CreativesRequest):
        return {"advertiser_id": request.advertiser_id, "url": request.url}
    return {name: getattr(request, name) for name in fields}


def _subject(request: Strict) -> str:
    """Return the text that names the subject of a request, without a password."""
    match request:
        case SearchRequest():
            return request.query
        case CreativesRequest():
            return request.advertiser
        case CrawlRequest():
            return arguments.mask_credentials(request.subject)
    raise TypeError(f"{type(request).__name__} has no subject")


def _advertiser(advertiser: object) -> dict[str, object]:
    """Return the request field that names the advertiser."""
    if not isinstance(advertiser, str):
        raise InvalidArgument(
            f"advertiser must be an id, or the URL of its page; it is {format_value(advertiser)}"
        )
    return {"url" if "://" in advertiser else "advertiser_id": advertiser}


def _enrichment(request: CreativesRequest) -> set[str]:
    """Return the requested kinds of enrichment; assets need the details."""
    requested = {
        "details": not request.skip_details or request.should_download_assets,
        "assets": request.should_download_assets,
        "previews": request.should_download_previews,
        "ocr": request.ocr,
    }
    return {kind for kind, is_requested in requested.items() if is_requested}


def _warn_without_effect(request: SearchRequest) -> None:
    if request.formats:
        return
    names = [name for name in ResultPageOptions.__annotations__ if name != "formats"]
    unused = [name for name in names if name in request.model_fields_set]
    if unused:
        caller.warn(f"{', '.join(unused)} without effect: formats=[] visits no result page")
