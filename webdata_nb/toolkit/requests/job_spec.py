"""Defines the job of a call: a request of the contract and the columns of its frame."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import orjson
from pydantic import ValidationError

from webdata_nb import caller
from webdata_nb.contract.archives import file_version
from webdata_nb.contract.fields import Strict
from webdata_nb.contract.limits import CONCURRENCY, MAX_PAGES
from webdata_nb.contract.requests import (
    CrawlRequest,
    CreativesRequest,
    ExtendedCrawlRequest,
    SearchRequest,
)
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import schemas
from webdata_nb.toolkit.requests import arguments, page_options
from webdata_nb.toolkit.requests.extract_schema import extract_request
from webdata_nb.toolkit.requests.options import (
    CreativesOptions,
    ResultPageOptions,
    SearchRequestOptions,
)
from webdata_nb.toolkit.requests.since import Since

if TYPE_CHECKING:
    from webdata_nb.toolkit.frames.schemas import TableName
    from webdata_nb.toolkit.requests.options import CrawlDfOptions

_MODELS: Final[Mapping[str, type[SearchRequest | CrawlRequest | CreativesRequest]]] = {
    "search": SearchRequest,
    "crawl": CrawlRequest,
    "creatives": CreativesRequest,
}


# The fields of a source, by the names of their arguments.
_OPTIONS_OF_CAPTURES: Final = {
    "as_of": "as_of",
    "source": "archive",
    "max_distance": "max_distance",
}
_FIELDS_OF_ONE_PAGE: Final = frozenset({"url", "max_pages", "max_depth"})
_FIELDS_OF_FILE: Final = {"archive": "path", "archive_version": "version"}
_ARGUMENT_NAMES: Final = {
    **{f"source.web_archive.{field}": name for name, field in _OPTIONS_OF_CAPTURES.items()},
    "source.file.path": "as_of",
    "purpose": "rights",
    "sink.warc": "out",
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
    def urls(self) -> tuple[str, ...]:
        """The pages of a list; none of another request."""
        return self.request.urls if isinstance(self.request, ExtendedCrawlRequest) else ()

    @property
    def warc(self) -> Path | None:
        """The WARC file that a crawl writes; None of another request."""
        request = self.request
        warc = request.sink.warc if isinstance(request, ExtendedCrawlRequest) else None
        return None if warc is None else Path(warc)

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
    def crawl(
        cls,
        url: str | None,
        *,
        archive: Path | None = None,
        warc: Path | None = None,
        **fields: Any,
    ) -> Self:
        """Build a crawl from a URL, or from the first page of an archive; raises as `search`.

        `fields` are those of the request, besides its source and sink. Page options may be among
        them as well as in `scrape_options`, and the entries of `as_of` as `receipt["request"]` has
        them. With `warc`, the responses are written to that file as well.
        """
        values: dict[str, Any] = {"url": url, **fields}
        captures = {field: values.pop(name, None) for name, field in _OPTIONS_OF_CAPTURES.items()}
        source: dict[str, Any] = {}
        if archive is not None:
            status = archive.stat()
            version = file_version(status.st_size, status.st_mtime_ns)
            source["file"] = {"path": str(archive), "version": version}
        if captures["as_of"] is not None:
            source["web_archive"] = captures
        if source:
            values["source"] = source
        if warc is not None:
            values["sink"] = {"warc": str(warc)}
        is_extended = source or warc is not None or values.get("audit") or is_long(values)
        return cls._crawl(ExtendedCrawlRequest if is_extended else CrawlRequest, values)

    @classmethod
    def pages(cls, singles: Sequence[Self]) -> Self:
        """Build one crawl of several single pages with equal options, without their links."""
        urls = [single.body["url"] for single in singles]
        body = {**singles[0].body, "urls": urls, "concurrency": CONCURRENCY[1]}
        request = arguments.build_request(
            ExtendedCrawlRequest,
            {name: value for name, value in body.items() if name not in _FIELDS_OF_ONE_PAGE},
        )
        return cls("crawl", request, _subject(request), singles[0].columns, len(singles))

    @classmethod
    def _crawl(cls, model: type[CrawlRequest], values: Mapping[str, Any]) -> Self:
        merged = page_options.merge(values)
        names = {**merged.argument_names, **_ARGUMENT_NAMES}
        request = arguments.build_request(model, merged.values, names)
        scraped = request.scrape_options
        extended = request if isinstance(request, ExtendedCrawlRequest) else None
        columns = schemas.frame_columns(
            "crawl",
            formats=scraped.formats,
            extract=scraped.extract is not None,
            metadata=True,
            audit=request.audit,
            rights=request.reads_rights,
            dated=extended is not None and extended.source.web_archive is not None,
        )
        # The site decides how many pages there are; the start page is always a row.
        total = 1 if request.row_limit == 1 else None
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
        public = _as_arguments(arguments.public_request(self.request))
        return public if self.max_rows is None else {**public, "limit": self.max_rows}

    def params(self, *, local: bool) -> dict[str, Any]:
        """Return the parameters that decide the answer, secrets included."""
        has_defaults = self.has_contract_defaults or local
        params = arguments.request_with_defaults(self.request) if has_defaults else self.body
        params = arguments.without_webhook(params)
        return params if self.max_rows is None else {**params, "max_rows": self.max_rows}


def is_long(values: Mapping[str, Any] | CrawlDfOptions) -> bool:
    """Return whether a crawl may have more pages than one of the contract."""
    max_pages = values.get("max_pages")
    if not isinstance(max_pages, int) or isinstance(max_pages, bool):
        return False  # a request refuses other types
    return max_pages > MAX_PAGES[1]


def _as_arguments(public: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request by the names of their arguments."""
    flat = {name: value for name, value in public.items() if name not in {"source", "sink"}}
    source, sink = public.get("source", {}), public.get("sink", {})
    file = source.get("file", {})
    flat |= {name: file[field] for name, field in _FIELDS_OF_FILE.items() if field in file}
    captures = source.get("web_archive", {})
    flat |= {
        name: captures[field] for name, field in _OPTIONS_OF_CAPTURES.items() if field in captures
    }
    return {**flat, **sink}


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
