"""Builds the jobs of a call: each combination of its lists, with its request and its columns."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, cast, get_args, overload
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError

from webdata_nb import caller
from webdata_nb.contract import limits
from webdata_nb.contract.archives import SUFFIXES, WRITTEN_SUFFIX, file_version
from webdata_nb.contract.choices import ARCHIVE_SOURCES, PURPOSES
from webdata_nb.contract.limits import CONCURRENCY, MAX_PAGES
from webdata_nb.contract.requests import (
    CrawlRequest,
    CreativesRequest,
    ExtendedCrawlRequest,
    SearchRequest,
    conflict_of,
)
from webdata_nb.contract.url_keys import names_folder
from webdata_nb.errors import InvalidArgument
from webdata_nb.settings import DURATION, earlier_time, seconds
from webdata_nb.suggestions import closest, did_you_mean, format_value, is_frame, quoted
from webdata_nb.toolkit.frames import schemas
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import CallOptions, check_entries
from webdata_nb.toolkit.requests.options import (
    AsOfDict,
    CrawlOptions,
    CrawlPageOptions,
    CreativesOptions,
    ResultPageOptions,
    Scope,
    ScrapedPageOptions,
    SearchOptions,
    SearchRequestOptions,
    SinceDict,
    SinglePageOptions,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from webdata_nb.contract.fields import Strict
    from webdata_nb.toolkit.frames.input_rows import Label
    from webdata_nb.toolkit.frames.schemas import TableName
    from webdata_nb.toolkit.requests.options import CrawlDfOptions

# The forms of `extract`


_WORDS: Final = frozenset({"prompt", "provider", "model"})
_ENTRIES: Final = _WORDS | {"schema"}
# What other languages and schemas call types, and other values of them.
_TYPE_NAMES: Final = {
    "str": "str string text char varchar",
    "int": "int integer long bigint",
    "float": "float number double decimal numeric real",
    "bool": "bool boolean flag",
    "datetime.date": "date day",
    "datetime.datetime": "datetime timestamp time",
    "list[str]": "list array list[str] list[string] string[] str[] [str]",
}
# Similarity of a word that was meant to be another one.
_SPELLING: Final = 0.8
_FORMS: Final = "must be a pydantic class, a JSON Schema or a dict of names and types"
_FIELD_KEYWORDS: Final = frozenset({"type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"})


def extract_request(value: Any) -> Any:
    """Return the `extract` of a request; the contract's model checks it.

    Raises
    ------
    InvalidArgument
        A type has no JSON Schema.

    Examples
    --------
    >>> extract_request({"name": str, "tags": [str]})["schema"]["properties"]["tags"]
    {'type': 'array', 'items': {'type': 'string'}}
    """
    if not isinstance(value, Mapping | type | None):
        raise InvalidArgument(f"extract {_FORMS}; it is {_described(value)}")
    if isinstance(value, Mapping) and _is_request(value):
        for name, entry in value.items():
            if name not in _ENTRIES and _type_called(entry) is not None:
                example = f"{{{name!r}: {_type_called(entry)}}}"
                raise InvalidArgument(
                    f"extract has the entries prompt, schema, provider and model, and {name!r} is "
                    f"none of them: put fields into schema, such as {example}"
                )
        schema = value.get("schema")
        with suppress(TypeError):
            orjson.dumps(schema)
            return value  # services may take other shapes than JSON Schema
        return {**value, "schema": _json_schema(schema)}
    return value if value is None else {"schema": _json_schema(value)}


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else format_value(value)


def _is_request(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping has the entries of a request, and not fields or a schema."""
    if all(isinstance(each, str | None) for each in value.values()):
        # Without a name like those of entries, texts are meant as the types of fields, which is
        # refused for each of them.
        return not _is_schema(value) and (
            not value
            or any(get_close_matches(str(name), _ENTRIES, cutoff=_SPELLING) for name in value)
        )
    has_words = any(isinstance(value.get(name), str) for name in _WORDS)
    others = [each for name, each in value.items() if name != "schema"]
    return has_words or ("schema" in value and all(each is None for each in others))


def _is_schema(value: Mapping[str, Any]) -> bool:
    has_keyword = any(str(name).startswith("$") for name in value)
    properties = value.get("properties")
    has_schemas = isinstance(properties, Mapping) and all(
        isinstance(each, Mapping) for each in properties.values()
    )
    return has_keyword or value.get("type") == "object" or has_schemas


def _json_schema(value: Any) -> Any:
    """Return a class, a dict of names and types or a JSON Schema as a JSON Schema."""
    if isinstance(value, type):
        if not issubclass(value, BaseModel):
            raise InvalidArgument(f"extract {_FORMS}; it is {_described(value)}")
        return value.model_json_schema()
    if not isinstance(value, Mapping) or _is_schema(value):
        return value
    definitions: dict[str, Any] = {}
    try:
        schema = _object_schema("extract", value, definitions)  # requires no field
    except RecursionError:
        raise InvalidArgument(
            "extract cannot be written as JSON: a dict or list holds itself"
        ) from None
    return {**schema, "$defs": definitions} if definitions else schema


def _object_schema(
    path: str, fields: Mapping[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    properties = {
        str(name): _field_schema(f"{path}[{str(name)!r}]", value, definitions)
        for name, value in fields.items()
    }
    return {"type": "object", "properties": properties}


def _field_schema(path: str, value: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one field, and add the classes that it refers to."""
    if isinstance(value, Mapping):
        # A JSON Schema, such as `{"type": "number"}`, or fields of their own.
        keywords = _FIELD_KEYWORDS & value.keys()
        is_schema = any(isinstance(value[name], str | list) for name in keywords)
        return dict(value) if is_schema else _object_schema(path, value, definitions)
    if isinstance(value, list):
        if len(value) != 1:
            raise InvalidArgument(f"{path} must be a list of one type, such as [str]")
        return {"type": "array", "items": _field_schema(path, value[0], definitions)}
    schema = None
    # pydantic would evaluate a string as the name of a type.
    if not isinstance(value, str | None):
        with suppress(PydanticUserError, TypeError, NameError):
            schema = dict(TypeAdapter(value).json_schema())
    if schema is None:
        raise InvalidArgument(
            f"{path} must be a type such as str, int, float, bool, datetime.date, list[str] or a "
            f"pydantic class; it is {_described(value)}{did_you_mean(_type_called(value))}"
        )
    for name, definition in schema.pop("$defs", {}).items():
        if definitions.setdefault(name, definition) != definition:
            raise InvalidArgument(f"{path}: two classes have the name {name}")
    return schema


def _type_called(value: object) -> str | None:
    """Return the type that a text names, without the quotes that it should not have."""
    if not isinstance(value, str):
        return None
    words = value.strip().lower()
    return next((name for name, words_of in _TYPE_NAMES.items() if words in words_of.split()), None)


# Page options, passed directly or in `scrape_options`


# The name in the request of each page option. `timeout` is the job's in the functions.
REQUEST_NAMES: Final[Mapping[str, str]] = {
    **{name: name for name in ScrapedPageOptions.__annotations__},
    "page_timeout": "timeout",
}


@dataclass(frozen=True, slots=True)
class MergedOptions:
    """The values of a request, and for its messages the arguments that they come from."""

    values: dict[str, Any]
    argument_names: dict[str, str]


def merge(options: Mapping[str, Any]) -> MergedOptions:
    """Return the options of a crawl with all page options in `scrape_options`.

    Raises
    ------
    InvalidArgument
        An option is passed directly and in `scrape_options`.
    """
    direct = {name: options[name] for name in REQUEST_NAMES if options.get(name) is not None}
    values = {name: value for name, value in options.items() if name not in REQUEST_NAMES}
    scrape_options = values.get("scrape_options")
    argument_names = {f"scrape_options.{REQUEST_NAMES[name]}": name for name in direct}
    if scrape_options is None:
        scrape_options = {}
        argument_names["scrape_options"] = ""
    if isinstance(scrape_options, Mapping):
        merged = dict(scrape_options)
        for name, value in direct.items():
            entry = REQUEST_NAMES[name]
            if scrape_options.get(entry) is not None:
                raise InvalidArgument(
                    f'{name}= and scrape_options["{entry}"] are the same option: pass one of them'
                )
            merged[entry] = value
        if "extract" in merged:
            merged["extract"] = extract_request(merged["extract"])
        if merged or values.get("scrape_options") is not None:
            values["scrape_options"] = merged
    return MergedOptions(values, argument_names)


def grouped(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of commands, which have a flag for each, as `crawl_df` takes them."""
    direct = CrawlPageOptions.__annotations__
    entries = {
        REQUEST_NAMES[name]: value
        for name, value in options.items()
        if name in REQUEST_NAMES and name not in direct
    }
    others = {
        name: value
        for name, value in options.items()
        if name in direct or name not in REQUEST_NAMES
    }
    return {**others, "scrape_options": entries} if entries else others


# `since`: the earlier crawl that unchanged pages are taken from


LAST: Final = "last"
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ATTRS: Final = "webdata"
_ALLOWED: Final = '"last", a frame of crawl_df, the id of a crawl, or a time, such as "yesterday"'


@dataclass(frozen=True, slots=True)
class Since:
    """The earlier crawl of an incremental one.

    Attributes
    ----------
    job_id
        The crawl; None until the cache has found it, or where there is none.
    is_exact
        Whether the caller named this crawl. Otherwise every page is fetched where it is gone.
    before
        The latest time of the crawl that the cache looks for; None for the last one.
    recheck
        The share of unchanged pages that are fetched in full; None for the service's default.
    refusal
        Why the service cannot use the crawl that the cache found; "" if it can.
    """

    job_id: str | None = None
    is_exact: bool = False
    before: datetime | None = None
    recheck: float | None = None
    refusal: str = ""

    @classmethod
    def check(cls, since: object) -> Self | None:
        """Check the option that a user passed; None if it asks for no incremental crawl.

        Raises
        ------
        InvalidArgument
            It has a value that is not allowed; nothing was sent.
        """
        if since is None:
            return None
        if not isinstance(since, Mapping):
            return cls._of(since)
        entries = check_entries("since", since, SinceDict)
        if "base" not in entries:
            raise InvalidArgument(f"since must have the entry base: {_ALLOWED}")
        base, recheck = cls._of(entries["base"]), entries.get("recheck")
        if recheck is None:
            return base
        low, high = limits.RECHECK
        is_number = isinstance(recheck, int | float) and not isinstance(recheck, bool)
        if not is_number or not low <= recheck <= high:
            raise InvalidArgument(
                f"recheck must be a share from {low:g} to {high:g}; it is {format_value(recheck)}"
            )
        return replace(base, recheck=float(recheck))

    @classmethod
    def _of(cls, since: object) -> Self:
        if is_frame(since):
            attrs = getattr(since, "attrs", {}).get(_ATTRS)
            receipt: Mapping[str, Any] = attrs if isinstance(attrs, Mapping) else {}
            job_id = receipt.get("job_id")
            if receipt.get("kind") != "crawl" or not isinstance(job_id, str):
                raise InvalidArgument(
                    "since must be a frame of one crawl with its receipt, as crawl_df returns it; "
                    f"this frame has {_kind_of(receipt)}"
                )
            return cls(job_id, is_exact=True)
        if isinstance(since, str):
            if since == LAST:
                return cls()
            return cls(since, is_exact=True) if _UUID.fullmatch(since) else cls(before=_time(since))
        if isinstance(since, date):  # as are a datetime and a Timestamp of pandas
            return cls(before=_time(since.isoformat()))
        raise InvalidArgument(f"since must be {_ALLOWED}; it is {format_value(since)}")

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the request; none without an earlier crawl."""
        if self.job_id is None:
            return {}
        recheck = {} if self.recheck is None else {"recheck": self.recheck}
        return {"base": {"job_id": self.job_id, **recheck}}


def _kind_of(receipt: Mapping[str, Any]) -> str:
    if not receipt:
        return "no receipt"
    if "runs" in receipt:
        return "the receipt of several crawls"
    kind = receipt.get("kind")
    if kind == "crawl":
        return "a receipt without the id of its job"
    return f"a receipt of the kind {format_value(kind)}"


def _time(text: str) -> datetime:
    """Return a time; one without a time zone is in that of this machine."""
    if (at := earlier_time(text, datetime.now().astimezone())) is not None:
        return at
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise InvalidArgument(f"since must be {_ALLOWED}; it is {format_value(text)}") from None


_SECONDS_PER_DAY: Final = 86_400
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
    `scope` is what the caller said of a crawl's bounds; None if its URL decides.
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
    scope: Scope | None = None

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
        if not request.formats:
            names = [name for name in ResultPageOptions.__annotations__ if name != "formats"]
            unused = [name for name in names if name in request.model_fields_set]
            if unused:
                caller.warn(f"{', '.join(unused)} without effect: formats=[] visits no result page")
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
        scope, external = values.get("scope"), values.get("allow_external_links")
        if scope is not None:
            arguments.check_choice("scope", scope, get_args(Scope))
            if external is not None and arguments.check_flag("allow_external_links", external) != (
                scope == "any"
            ):
                raise InvalidArgument(
                    f"scope={scope!r} and allow_external_links={external} disagree: pass scope, "
                    'which is "any" to follow links to other sites'
                )
        bounds: dict[str, dict[str, Any]] = {
            "any": {"allow_external_links": True},
            "folder": {"scope": scope},
        }
        merged = merge({**values, "scope": None, **bounds.get(scope or "", {})})
        names = {**merged.argument_names, **_ARGUMENT_NAMES}
        request = arguments.build_request(model, merged.values, names)
        if scope is None:
            request = _scoped_by_url(request)
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
        return cls("crawl", request, _subject(request), columns, total, scope=scope)

    @classmethod
    def creatives(cls, advertiser: str, **options: Unpack[CreativesOptions]) -> Self:
        """Build a listing of an advertiser's creatives; raises as `search`."""
        most = {"limit": options.pop("limit", None), "max_rows": options.pop("max_rows", None)}
        given = {
            name: arguments.check_count(name, value)
            for name, value in most.items()
            if value is not None
        }
        if len(set(given.values())) > 1:
            raise InvalidArgument(
                f"limit={given['limit']} and max_rows={given['max_rows']} both say how many rows "
                "there are at most: pass limit"
            )
        max_rows, only_new = next(iter(given.values()), None), options.pop("only_new", False)
        request = arguments.build_request(CreativesRequest, {**_advertiser(advertiser), **options})
        enrichment = {
            # Assets need the details.
            "details": not request.skip_details or request.should_download_assets,
            "assets": request.should_download_assets,
            "previews": request.should_download_previews,
            "ocr": request.ocr,
        }
        return cls(
            "creatives",
            request,
            _subject(request),
            schemas.creatives_columns({kind for kind in enrichment if enrichment[kind]}),
            max_rows,
            max_rows=max_rows,
            only_new=arguments.check_flag("only_new", only_new),
        )

    def with_subject(self, fields: Mapping[str, Any]) -> Self:
        """Return the same request for the subject that `subject_fields` checked."""
        request = self.request.model_copy(update=fields)
        if isinstance(request, CrawlRequest) and self.scope is None:
            request = _scoped_by_url(request)
        return replace(self, request=request, subject=_subject(request))

    def with_folder_as_pattern(self) -> Self | None:
        """Return the crawl of a folder for a service that knows patterns of paths alone.

        None where it has patterns of its own, as a service keeps to any of them.
        """
        request = self.request
        if not isinstance(request, CrawlRequest) or request.include_paths:
            return None
        folder = urlsplit(request.url).path.rpartition("/")[0] + "/"
        if request.scope == "auto" and not names_folder(request.url):
            folder = "/"
        values = {name: value for name, value in self.body.items() if name != "scope"}
        patterns = {} if folder == "/" else {"include_paths": [f"{folder}**"]}
        return replace(self, request=arguments.build_request(type(request), values | patterns))

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
        public: dict[str, Any] = arguments.without_secrets(self.body)
        source, sink = public.pop("source", {}), public.pop("sink", {})
        file, captures = source.get("file", {}), source.get("web_archive", {})
        # The fields have the names of their arguments.
        public |= {name: file[field] for name, field in _FIELDS_OF_FILE.items() if field in file}
        for name, field in _OPTIONS_OF_CAPTURES.items():
            if field in captures:
                public[name] = captures[field]
        public |= sink
        if isinstance(self.request, CrawlRequest):
            public.pop("scope", None)
            public |= {} if self.scope is None else {"scope": self.scope}
        return public if self.max_rows is None else {**public, "limit": self.max_rows}

    def params(self, *, local: bool) -> dict[str, Any]:
        """Return the parameters that decide the answer, secrets included."""
        has_defaults = self.has_contract_defaults or local
        params = arguments.request_with_defaults(self.request) if has_defaults else self.body
        params = arguments.without_webhook(params)
        return params if self.max_rows is None else {**params, "max_rows": self.max_rows}


def _scoped_by_url(request: CrawlRequest) -> CrawlRequest:
    """Return a crawl whose URL decides if it keeps to a folder, where it has no other bounds."""
    has_bounds = request.allow_external_links or request.include_paths or request.row_limit == 1
    if has_bounds or urlsplit(request.url).path in {"", "/"}:
        return request
    return request.model_copy(update={"scope": "auto"})


def is_long(values: Mapping[str, Any] | CrawlDfOptions) -> bool:
    """Return whether a crawl may have more pages than one of the contract."""
    max_pages = values.get("max_pages")
    if not isinstance(max_pages, int) or isinstance(max_pages, bool):
        return False  # a request refuses other types
    return max_pages > MAX_PAGES[1]


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


# Inputs: every combination of list arguments, in order


MAX_INPUTS: Final = 10_000

# The arguments that may be lists, and the columns that hold their values.
_SEARCH_LABELS: Final = {name: name for name in ("query", "engine", "language", "country")}
_CRAWL_LABELS: Final = {"url": "start_url"}
# Valid subjects, which stand in for invalid entries.
_STAND_INS: Final = {"query": "query", "url": "https://example.com/", "advertiser": "AR1"}
# The fields of a request that its subject describes.
SUBJECT_FIELDS: Final = frozenset({"query", "url", "advertiser_id"})
_MISSING_TYPES: Final = frozenset({"NAType", "NaTType"})
_CREATIVES_LABELS: Final = {name: name for name in ("advertiser", "region", "date_range")}


@dataclass(frozen=True, slots=True)
class Input:
    """One combination of list arguments; a call without lists has one input without labels.

    An input with an `error` is not run: its list has an invalid entry. The `spec` then has a valid
    subject in place of the entry, and is used for its columns only.
    """

    labels: Mapping[str, Label]
    spec: JobSpec
    error: InvalidArgument | None = None

    @property
    def public_request(self) -> dict[str, Any]:
        """The request without secrets, and without the subject of an invalid input."""
        request = self.spec.public_request
        hidden = SUBJECT_FIELDS if self.error is not None else ()
        return {name: value for name, value in request.items() if name not in hidden}


def identity(inputs: Sequence[Input]) -> Iterator[object]:
    """Yield the values that tell apart two lists with the same options, without a password."""
    if isinstance(inputs, InputList):
        return inputs.identity()
    return ([item.labels, item.error is None] for item in inputs)


def valid_specs(inputs: Sequence[Input]) -> list[JobSpec]:
    """Return the requests of the inputs that can be run."""
    return [item.spec for item in inputs if item.error is None]


def representative(inputs: Sequence[Input]) -> Input:
    """Return the first input that can be run; the first one if there is none."""
    return next((item for item in inputs if item.error is None), inputs[0])


def refuse_invalid_inputs(inputs: Sequence[Input]) -> None:
    """Raise the error of the first invalid entry of a list."""
    for number, item in enumerate(inputs, start=1):
        if item.error is not None:
            raise InvalidArgument(f"input {number} of {len(inputs)}: {item.error}")


def search_inputs(
    query: str | Sequence[str], options: SearchOptions, *, lazy: bool = False
) -> Sequence[Input]:
    """Return the searches of a call; an invalid query of a list is an input with an error.

    A call in partitions, which Dask runs or whose frame is `lazy`, may have more inputs than
    others, and a single input is one of a list.

    Raises
    ------
    InvalidArgument
        A list is empty, or the contract does not allow an option; nothing was sent.
    """
    values = {"query": query, **request_values(options, SearchOptions)}
    return _combinations(JobSpec.search, values, _SEARCH_LABELS, in_partitions(options, lazy=lazy))


def url_inputs(
    url: object, values: Mapping[str, Any], *, partitioned: bool = False
) -> Sequence[Input]:
    """Return the crawls of URLs with the options of `JobSpec.crawl`; raises as `search_inputs`."""
    return _combinations(JobSpec.crawl, {"url": url, **values}, _CRAWL_LABELS, partitioned)


def page_inputs(urls: str | Sequence[str], options: SinglePageOptions) -> Sequence[Input]:
    """Return a crawl of one page for each URL; raises as `search_inputs`."""
    url_list = arguments.list_items("urls", [urls] if isinstance(urls, str) else urls)
    if url_list is None:
        raise InvalidArgument(f"urls must be a URL or a list of URLs; it is {format_value(urls)}")
    pages = {"max_pages": 1, "max_depth": 1, **crawl_fields(options, SinglePageOptions)}
    return url_inputs(url_list, pages, partitioned=in_partitions(options))


def creatives_inputs(advertiser: str | Sequence[str], options: CreativesOptions) -> Sequence[Input]:
    """Return the listings of a call; raises as `search_inputs`."""
    values = {"advertiser": advertiser, **request_values(options, CreativesOptions)}
    return _combinations(JobSpec.creatives, values, _CREATIVES_LABELS, in_partitions(options))


def in_partitions(options: object, *, lazy: bool = False) -> bool:
    """Return whether a call runs its inputs in partitions."""
    return lazy or arguments.is_dask(cast("Mapping[str, Any]", options).get("executor"))


def request_values(options: object, group: type) -> dict[str, Any]:
    """Return the options of a call that belong to `group`."""
    values = cast("Mapping[str, Any]", options)
    return {name: values[name] for name in group.__annotations__ if name in values}


def crawl_fields(options: object, group: type) -> dict[str, Any]:
    """Return the options of a call that belong to `group`, as fields of a crawl's request.

    Raises
    ------
    InvalidArgument
        `rights` has another value than those in its description, or a time of a page one that is
        no duration.
    """
    fields = request_values(options, group)
    for name in _MILLISECONDS:
        if fields.get(name) is not None:
            fields[name] = _milliseconds(name, fields[name])
    if isinstance(entries := fields.get("scrape_options"), Mapping):
        fields["scrape_options"] = {
            name: _milliseconds(f"scrape_options.{name}", value)
            if name in _MILLISECONDS.values() and value is not None
            else value
            for name, value in entries.items()
        }
    rights = fields.pop("rights", None)
    if isinstance(rights, bool):
        fields["rights"] = rights
    elif rights is not None:
        fields["purpose"] = arguments.check_choice("rights", rights, PURPOSES, "True, False")
    return fields


# Options in seconds, and the fields of requests, in milliseconds.
_MILLISECONDS: Final = {"page_timeout": "timeout", "wait_for": "wait_for"}
# From here, a number is one of the contract, in milliseconds: nobody waits so many seconds.
_CONTRACT_MS: Final = {"page_timeout": 1000, "timeout": 1000, "wait_for": 61}


def _milliseconds(name: str, value: object) -> object:
    """Return the milliseconds of a duration; a text that is none, such as a selector, as it is."""
    duration = seconds(value)
    if duration is None:
        if isinstance(value, str) and name.endswith("wait_for"):
            return value
        raise InvalidArgument(f"{name} must be {DURATION}; it is {format_value(value)}")
    low, high = limits.SCRAPE_TIMEOUT_MS
    is_of_contract = duration >= _CONTRACT_MS[name.rpartition(".")[2]]
    has_unit = isinstance(value, timedelta) or (isinstance(value, str) and value[-1:].isalpha())
    if is_of_contract and not has_unit:
        duration /= 1000
    if not low <= round(duration * 1000) <= high:
        raise InvalidArgument(
            f"{name} must be from {low / 1000:g} to {high / 1000:g} seconds; it is "
            f"{format_value(value)}"
        )
    return round(duration * 1000)


def with_units(scrape_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `scrape_options` of a request as arguments, whose times have a unit."""
    return {
        name: f"{value}ms" if name in _MILLISECONDS.values() and isinstance(value, int) else value
        for name, value in scrape_options.items()
    }


class InputList(Sequence[Input]):
    """Every subject with every combination of the other list arguments, in this order.

    An input is built when it is read: a call in partitions may have a million of them. `templates`
    are the inputs of the combinations, with a valid subject in place of the real ones.
    """

    def __init__(self, label: str, subjects: Sequence[object], templates: Sequence[Input]) -> None:
        self._label, self._templates = label, templates
        self._labels = [_label(subject) for subject in subjects]
        self._errors: dict[int, InvalidArgument] = {}
        self._fields: list[Mapping[str, Any] | None] = []
        op = templates[0].spec.op
        for number, subject in enumerate(subjects):
            fields: Mapping[str, Any] | None = None
            try:
                fields = subject_fields(op, subject)
            except InvalidArgument as error:
                self._errors[number] = error
            self._fields.append(fields)

    def __len__(self) -> int:
        return len(self._fields) * len(self._templates)

    @overload
    def __getitem__(self, index: int) -> Input: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Input]: ...

    def __getitem__(self, index: int | slice) -> Input | Sequence[Input]:
        positions = range(len(self))[index]
        return self._at(positions) if isinstance(positions, int) else list(map(self._at, positions))

    def _at(self, position: int) -> Input:
        number, combination = divmod(position, len(self._templates))
        template, fields = self._templates[combination], self._fields[number]
        columns = {self._label: self._labels[number], **template.labels}
        if fields is None:
            return Input(columns, template.spec, self._errors[number])
        return Input(columns, template.spec.with_subject(fields))

    def identity(self) -> Iterator[object]:
        """Yield the values that tell apart two lists with the same options, without a password."""
        for template in self._templates:
            yield template.labels
        for label, fields in zip(self._labels, self._fields, strict=True):
            yield [label, fields is not None]


def _combinations(
    make: Callable[..., JobSpec],
    values: Mapping[str, Any],
    labels: Mapping[str, str],
    partitioned: bool,
) -> Sequence[Input]:
    lists = {name: arguments.list_items(name, values.get(name)) for name in labels}
    axes = {name: entries for name, entries in lists.items() if entries is not None}
    if not axes and not partitioned:
        return [Input({}, make(**values))]
    subject, *others = labels
    subjects = axes.get(subject, [values.get(subject)])
    options = {name: axes[name] for name in others if name in axes}
    count = math.prod([len(subjects), *map(len, options.values())])
    limit = arguments.MAX_PARTITIONED_INPUTS if partitioned else MAX_INPUTS
    if count > limit:
        most = arguments.MAX_PARTITIONED_INPUTS
        hint = "" if partitioned else f", or {most} with Dask or lazy=True"
        raise InvalidArgument(f"the lists make {count} inputs: {limit} at most in one call{hint}")
    # Options are checked once, with a valid subject, and subjects without options.
    templates = []
    for chosen in itertools.product(*options.values()):
        named = dict(zip(options, chosen, strict=True))
        columns = {labels[name]: _label(value) for name, value in named.items()}
        spec = make(**{**values, subject: _STAND_INS[subject], **named})
        templates.append(Input(columns, spec))
    combinations = InputList(labels[subject], subjects, templates)
    return combinations if partitioned else list(combinations)


def _label(value: object) -> Label:
    is_nan = isinstance(value, float) and math.isnan(value)
    if value is None or is_nan or type(value).__name__ in _MISSING_TYPES:
        return None
    return arguments.mask_credentials(str(value))


# Inputs of crawls: URL, source and base


_WARC: Final = "a WARC file as out"


def crawl_inputs(
    url: str | Path | Sequence[str | Path],
    options: CrawlDfOptions,
    *,
    lazy: bool = False,
    forms: Mapping[str, object] | None = None,
) -> Sequence[Input]:
    """Return the crawls of a call: of sites, of archive files, or of a web archive at a date.

    `forms` are what else the call wants, such as `stream`. A call in partitions, which Dask runs
    or whose frame is `lazy`, may have more inputs than others, and a single input is one of a list.

    Raises
    ------
    InvalidArgument
        An option is not allowed, or excludes another one; nothing was sent.
    """
    since = Since.check(options.get("since"))
    archive, dated = _read_as_of(options.get("as_of"))
    urls = arguments.list_items("url", url)
    reads_file = archive is not None or any(map(_is_archive, [url] if urls is None else urls))
    out = options.get("out")
    writes_warc = isinstance(out, str | Path) and str(out).lower().endswith(SUFFIXES)
    executor = options.get("executor")
    used: dict[str, object] = {
        "archive": reads_file,
        "as_of": dated or None,
        "since": since,
        _WARC: writes_warc,
        "audit": options.get("audit"),
        "more than 1,000 pages": is_long(options) and not options.get("audit"),
        "a list": urls,
        "lazy": lazy,
        "a Dask executor": arguments.is_dask(executor),
        "executor": executor,
        **(forms or {}),
    }
    if conflict := conflict_of(used):
        raise InvalidArgument(conflict)
    values = {**crawl_fields(options, CrawlOptions), **dated}
    if writes_warc:
        path = arguments.check_file_path("out", out)
        if not path.name.lower().endswith(WRITTEN_SUFFIX):
            raise InvalidArgument(f"an archive is written as {WRITTEN_SUFFIX}; out is {path}")
        values["warc"] = path
    if reads_file:
        inputs: Sequence[Input] = _archive_inputs(url, archive, values)
    else:
        inputs = url_inputs(url, values, partitioned=lazy or arguments.is_dask(executor))
    if reads_file or writes_warc:
        call = CallOptions.check_without_out(options)
        scope = call.connection.scope(call.settings)
        if not scope.local:
            raise InvalidArgument(
                "archives are read and written by the local service only, and this session uses "
                f"{scope.service}: leave out its address"
            )
    if since is None:
        return inputs
    if not options.get("cache", True) and not since.is_exact:
        raise InvalidArgument(
            "since finds the earlier crawl in the cache: leave cache=False out, or pass its frame "
            "or its id as since"
        )
    if since.is_exact and inputs[0].labels:
        raise InvalidArgument(
            'since must be "last" or a time with a list of URLs: a frame or an id is of one crawl'
        )
    # What the service would refuse: the request itself does not have the earlier crawl yet.
    request = cast("Any", inputs[0].spec.request)
    if conflict := conflict_of({**request.used_options, "since": since}):
        raise InvalidArgument(conflict)
    return [replace(item, spec=replace(item.spec, since=since)) for item in inputs]


# ------------------------------------------------------------------------------------- archives


def _is_archive(url: object) -> TypeIs[str | Path]:
    if isinstance(url, Path):
        return True
    return isinstance(url, str) and "://" not in url and url.lower().endswith(SUFFIXES)


def _read_as_of(as_of: object) -> tuple[object, dict[str, Any]]:
    """Return the archive file that `as_of` names, or its entries as the request has them."""
    if as_of is None:
        return None, {}
    entries: dict[str, Any] = {"date": as_of}
    if isinstance(as_of, Mapping):
        entries = arguments.check_entries("as_of", as_of, AsOfDict)
    source = entries.get("source")
    if _is_archive(source):
        if len(entries) > 1:
            raise InvalidArgument(
                "as_of with a file as source has no date and no max_distance: the file has its own "
                "captures"
            )
        return source, {}
    if source is not None and source not in ARCHIVE_SOURCES:
        suggestion = did_you_mean(quoted(closest(source, ARCHIVE_SOURCES)))
        raise InvalidArgument(
            f"the source of as_of must be {' or '.join(map(repr, ARCHIVE_SOURCES))}, or the path "
            f"of a file {', '.join(SUFFIXES)}; it is {format_value(source)}{suggestion}"
        )
    if "date" not in entries:
        raise InvalidArgument(
            "as_of must have the entry date, or the path of an archive file as source"
        )
    entries["as_of"] = arguments.time_text("as_of", entries.pop("date"))
    distance = entries.get("max_distance")
    if isinstance(distance, str | timedelta) and (duration := seconds(distance)) is not None:
        is_number = isinstance(distance, str) and distance[-1:].isdigit()
        entries["max_distance"] = duration if is_number else duration / _SECONDS_PER_DAY
    return None, entries


def _archive_inputs(
    url: str | Path | Sequence[str | Path], archive: object, values: dict[str, Any]
) -> list[Input]:
    """Return the crawl of `archive` from `url`, or those of the archives that `url` names."""
    if archive is not None:
        if not isinstance(url, str):
            raise InvalidArgument(
                "with a file as source of as_of, url must be one URL, where to start in it; it is "
                f"{format_value(url)}"
            )
        return [Input({}, JobSpec.crawl(url, archive=_checked_path(archive), **values))]
    items = arguments.list_items("url", url)
    for item in items or ():
        if not _is_archive(item):
            raise InvalidArgument(
                "a list of archives has paths of files only: crawl the others in a call of their "
                f"own; one is {format_value(item)}"
            )
    return [
        Input(
            {} if items is None else {"start_url": str(each)},
            JobSpec.crawl(None, archive=_checked_path(each), **values),
        )
        for each in items or [url]
    ]


def _checked_path(archive: object) -> Path:
    path = arguments.absolute_path("the archive", archive)
    if not path.name.lower().endswith(SUFFIXES):
        raise InvalidArgument(f"an archive is a file {', '.join(SUFFIXES)}; it is {path}")
    if not path.is_file():
        raise InvalidArgument(f"there is no archive {path}")
    return path


# ----------------------------------------------------------------------------------------- base
