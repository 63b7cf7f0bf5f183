"""Defines the requests of the API with their bounds (contract, parts 4.1, 4.4, 4.8).

Fields marked *ours* are extras of this service. The toolkit sends a field only if the caller set
it, so that another service does not get fields that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from webdata_nb.contract import limits
from webdata_nb.contract.choices import (
    ArchiveSource,
    CaptureMatch,
    CrawlBounds,
    Engine,
    Purpose,
    Strategy,
)
from webdata_nb.contract.fields import (
    ArchiveTime,
    CaptureDistance,
    CapturesListed,
    Concurrency,
    Cookies,
    Country,
    CreativesLimit,
    DeviceName,
    ExtendedMaxPages,
    ExtractSchema,
    FilePath,
    Flag,
    Formats,
    Headers,
    HttpUrl,
    Language,
    MaxDepth,
    MaxPages,
    NumResults,
    PageUrls,
    PastTime,
    Patterns,
    Query,
    Recheck,
    ScrapeTimeoutMs,
    ScreenshotSide,
    Selectors,
    StoredJobId,
    Strict,
    TimeoutMs,
    WaitFor,
    WebhookSecret,
)

# Options of a crawl that exclude each other, and why
#
# Service and toolkit check the same table: the service the options of a request, the toolkit those
# of a call as well, such as `stream`.


class Conflict(NamedTuple):
    """Options of which none goes with any of `others`."""

    options: tuple[str, ...]
    others: tuple[str, ...]
    reason: str


_ARCHIVES: Final = ("archive", "as_of")
_IN_PARTITIONS: Final = ("lazy", "a Dask executor")

CONFLICTS: Final = (
    Conflict(("archive",), ("as_of",), "each says where the pages come from"),
    Conflict(
        _ARCHIVES,
        ("headers", "cookies", "check_links", "since", "a WARC file as out"),
        "the pages come from an archive, and nothing is requested from their site",
    ),
    Conflict(
        (*_ARCHIVES, "since"),
        ("a browser",),
        "pages are read as the site sent them. A browser loads them with render, wait_for, "
        'mobile, mobile_device and the format "screenshot"',
    ),
    Conflict(
        (*_ARCHIVES, "since"),
        ("rights", "a purpose"),
        "what a site declares about its pages now is not read with pages of an earlier time",
    ),
    Conflict(
        ("a WARC file as out",),
        ("since", "a purpose", "check_links"),
        "the file has the responses of all pages of the crawl, and no others",
    ),
    Conflict(
        ("urls",),
        (
            *("max_pages", "max_depth", "crawl_strategy", "include_paths", "exclude_paths"),
            *("sitemap", "llms_txt", "audit", "check_links", "filter_faceted_urls"),
            *("allow_external_links", 'scope="folder"', "respect_nofollow"),
        ),
        "the pages of a list are read as they are, and no link is followed",
    ),
    Conflict(
        ("allow_external_links",),
        ('scope="folder"',),
        "a folder is a part of one site",
    ),
    Conflict(
        ("a purpose",),
        ("respect_robots_txt=False",),
        "robots.txt is where most sites say what their pages may be used for",
    ),
    # Of calls
    Conflict(("audit",), ("stream", "lazy"), "an audit compares all pages of a crawl in one frame"),
    Conflict(
        ("archive", "since", "a WARC file as out"),
        _IN_PARTITIONS,
        "files and crawls that this machine knows are not there on others",
    ),
    Conflict(
        ("more than 1,000 pages", "a WARC file as out"),
        ("a list", *_IN_PARTITIONS, "executor"),
        "one crawl writes its rows or responses to out",
    ),
    Conflict(
        ("a WARC file as out",),
        ("stream", "more than 1,000 pages"),
        "the rows are in one frame, when the file is complete",
    ),
)


def conflict_of(options: Mapping[str, object]) -> str:
    """Return why options exclude each other, as a sentence; "" if they do not.

    Examples
    --------
    >>> conflict_of({"since": "last", "as_of": "2024-06-01"})[:38]
    'as_of and since cannot be combined: th'
    >>> conflict_of({"since": "last", "stream": True})
    ''
    """
    used = {name for name, value in options.items() if value is not None and value is not False}
    for conflict in CONFLICTS:
        first = next((name for name in conflict.options if name in used), None)
        other = next((name for name in conflict.others if name in used), None)
        if first is not None and other is not None:
            return f"{first} and {other} cannot be combined: {conflict.reason}"
    return ""


MarkdownMode = Literal["article", "full"]
DATE_RANGES: Final = ("yesterday", "last_7_days", "last_30_days")
# Of the two sources with pages: Google's Transparency Center, and Meta's Ad Library.
_ADVERTISER_IN_URL: Final = re.compile(
    r"/advertiser/([A-Za-z0-9_-]+)|/ads/library/?\?(?:[^#]*&)?view_all_page_id=([0-9]+)"
)
_DATE: Final = r"\d{4}-\d{2}-\d{2}"


class MarkdownOptions(Strict):
    """How Markdown is made: `article` keeps the main content, `full` the whole page."""

    mode: MarkdownMode | None = Field(
        default=None,
        description="`article` keeps the main content, `full` the whole page; as "
        "`only_main_content` says when null.",
    )


class ScreenshotOptions(Strict):
    """What a screenshot shows; widths and heights are CSS pixels."""

    capture: Literal["viewport", "full_page"] | None = Field(
        default=None,
        description="`viewport` shows what fits the window, `full_page` the page to its end.",
    )
    full_page: Flag | None = Field(
        default=None, description="Another way to say `capture`: true is `full_page`."
    )
    width: ScreenshotSide | None = Field(
        default=None, description="Width of the window, in CSS pixels."
    )
    height: ScreenshotSide | None = Field(
        default=None, description="Height of the window, in CSS pixels."
    )

    @model_validator(mode="after")
    def _check_consistent(self) -> ScreenshotOptions:
        both_set = self.capture is not None and self.full_page is not None
        if both_set and (self.capture == "full_page") != self.full_page:
            raise ValueError(
                'capture and full_page disagree: send one of them, or capture "full_page" '
                "with full_page true"
            )
        return self


class FormatOptions(Strict):
    """Per-format settings."""

    markdown: MarkdownOptions | None = Field(default=None, description="How Markdown is made.")
    screenshot: ScreenshotOptions | None = Field(
        default=None, description="What a screenshot shows."
    )


class Extract(Strict):
    """What to extract from each scraped page: a prompt, a JSON-Schema-like object, or both."""

    prompt: Annotated[str, Field(min_length=1, max_length=limits.PROMPT_LENGTH)] | None = Field(
        default=None, description="What to extract, in words, for a language model."
    )
    schema_: Annotated[ExtractSchema | None, Field(alias="schema")] = Field(
        default=None,
        description="What to extract, as a JSON Schema of the object; where no model is set up "
        "it is filled from the page's own data.",
    )
    provider: Annotated[str, Field(min_length=1, max_length=limits.PROVIDER_LENGTH)] | None = Field(
        default=None,
        description="Language model provider to ask; the first that is set up when null.",
    )
    model: Annotated[str, Field(min_length=1, max_length=limits.MODEL_LENGTH)] | None = Field(
        default=None, description="Model to ask; the provider's usual one when null."
    )

    @model_validator(mode="after")
    def _check_not_empty(self) -> Extract:
        if self.prompt is None and self.schema_ is None:
            raise ValueError("must have a prompt, a schema, or both")
        return self


# Options that several requests share

PageFormats = Annotated[
    Formats,
    Field(
        description="What each row contains of its page; the page is not loaded if this is empty."
    ),
]
OnlyMainContent = Annotated[
    Flag,
    Field(
        description="Whether Markdown and HTML keep the main content alone, without navigation, "
        "banners and footers."
    ),
]
Mobile = Annotated[
    Flag | None,
    Field(description="Whether pages are loaded in a browser as on a phone."),
]
PageExtract = Annotated[
    Extract | None,
    Field(description="What to extract from each page as JSON; nothing when null."),
]
PageFormatOptions = Annotated[
    FormatOptions | None,
    Field(description="Settings of single formats (ours); the defaults when null."),
]
MobileDevice = Annotated[
    DeviceName | None,
    Field(description="Name of the device that the browser emulates, such as `iPhone 15` (ours)."),
]
PageHeaders = Annotated[
    Headers | None,
    Field(description="Headers sent with each page request, by name (ours)."),
]
PageCookies = Annotated[
    Cookies | None,
    Field(description="Cookies sent with each page request, by name (ours)."),
]
WebhookUrl = Annotated[
    HttpUrl | None,
    Field(
        description="The http or https URL that is notified of the job's end. It is stored "
        "encrypted and never shown."
    ),
]
JobWebhookSecret = Annotated[
    WebhookSecret | None,
    Field(
        description="Key of the deliveries' HMAC-SHA256 signature; without it they are not "
        "signed. Never shown."
    ),
]


class ScrapeOptions(Strict):
    """Applied to every page of a crawl. Times are milliseconds.

    `format_options`, `mobile_device`, `headers`, `cookies` and `render` are ours.
    """

    formats: PageFormats = ("markdown",)
    only_main_content: OnlyMainContent = True
    wait_for: WaitFor | None = Field(
        default=None,
        description="Milliseconds to wait after loading, or a CSS selector to wait for, in a "
        "browser.",
    )
    timeout: ScrapeTimeoutMs = Field(
        default=limits.SCRAPE_TIMEOUT_MS_DEFAULT,
        description="Milliseconds for one page: its fetch, retries and rendering.",
    )
    mobile: Mobile = None
    include_tags: Selectors = Field(
        default=(), description="CSS selectors of the parts to keep; everything when empty."
    )
    exclude_tags: Selectors = Field(default=(), description="CSS selectors of the parts to omit.")
    extract: PageExtract = None
    format_options: PageFormatOptions = None
    mobile_device: MobileDevice = None
    headers: PageHeaders = None
    cookies: PageCookies = None
    render: Flag | Literal["auto"] | None = Field(
        default=None,
        description="Whether pages are loaded in a browser (ours): `auto` only those that are "
        "empty without one; only where another option needs it when null.",
    )

    @model_validator(mode="after")
    def _check_render(self) -> ScrapeOptions:
        if self.render is False and (self.wait_for is not None or "screenshot" in self.formats):
            raise ValueError(
                "render false leaves no browser to wait in or to take a screenshot of: leave it "
                'out, or wait_for and the format "screenshot"'
            )
        return self

    @property
    def may_render(self) -> bool:
        """Whether a page with these options may be loaded in a browser, which costs more."""
        return self.render is not False and bool(
            self.render
            or self.wait_for is not None
            or self.mobile
            or self.mobile_device is not None
            or "screenshot" in self.formats
        )


class SearchRequest(Strict):
    """POST /v1/search."""

    query: Query = Field(description="What to search for.")
    num_results: NumResults = Field(
        default=limits.NUM_RESULTS_DEFAULT, description="Results at most."
    )
    engine: Engine = Field(
        default="engine_one",
        description="Which list of providers is tried in order; see `GET /v1/engines`.",
    )
    language: Language = Field(
        default="en", description="Language of the results, as a BCP 47 code."
    )
    country: Country | None = Field(
        default=None,
        description="Country for which to search, as a two-letter ISO 3166-1 code; none in "
        "particular when null.",
    )
    safe_search: Flag = Field(default=False, description="Whether to omit explicit results.")
    formats: PageFormats = ("markdown",)
    format_options: PageFormatOptions = None
    only_main_content: OnlyMainContent = True
    mobile: Mobile = None
    mobile_device: MobileDevice = None
    headers: PageHeaders = None
    cookies: PageCookies = None
    extract: PageExtract = None
    webhook_url: WebhookUrl = None
    webhook_secret: JobWebhookSecret = None


class CrawlRequest(Strict):
    """POST /v1/crawl.

    Ours: `sitemap` and `llms_txt` seed the crawl from the site's sitemaps and its `/llms.txt` as
    well, and `respect_nofollow` leaves links out that say `rel=nofollow`, or whose page says so of
    all of them.
    """

    url: HttpUrl = Field(description="Where the crawl starts.")
    max_pages: MaxPages = Field(
        default=limits.MAX_PAGES_DEFAULT, description="Rows at most, failed pages included."
    )
    max_depth: MaxDepth = Field(
        default=limits.MAX_DEPTH_DEFAULT,
        description="Links to follow from the start page at most; 1 is the pages that it links to.",
    )
    concurrency: Concurrency = Field(
        default=limits.CONCURRENCY_DEFAULT, description="Pages fetched at once at most."
    )
    crawl_strategy: Strategy = Field(
        default="bfs",
        description="Order of the pages: `bfs` by depth, `dfs` down each link first, `bff` the "
        "most promising first.",
    )
    allow_external_links: Flag = Field(
        default=False, description="Whether to follow links to other sites."
    )
    respect_robots_txt: Flag = Field(default=True, description="Whether robots.txt is obeyed.")
    include_paths: Patterns = Field(
        default=(),
        description="Patterns of URL paths to crawl, such as `/docs/**`; all when empty. The "
        "start page is always fetched.",
    )
    exclude_paths: Patterns = Field(
        default=(), description="Patterns of URL paths to exclude; they override `include_paths`."
    )
    scrape_options: ScrapeOptions = Field(
        default=ScrapeOptions(), description="How each page is loaded, and what its row carries."
    )
    filter_faceted_urls: Flag = Field(
        default=False,
        description="Whether to leave out filtered and sorted views of pages that are there "
        "already.",
    )
    sitemap: Flag = Field(
        default=False, description="Whether the site's sitemaps are read for further pages (ours)."
    )
    llms_txt: Flag = Field(
        default=False,
        description="Whether the links of the site's `/llms.txt` are further pages (ours).",
    )
    respect_nofollow: Flag = Field(
        default=False,
        description="Whether to ignore links with `rel=nofollow`, and all links of pages with the "
        "robots directive `nofollow` (ours).",
    )
    audit: Flag = Field(
        default=False,
        description="Whether to store the facts of each page that `GET /v1/crawl/{job_id}/"
        "page-facts` has for an audit, such as its titles and the texts of its links (ours).",
    )
    rights: Flag = Field(
        default=False,
        description="Whether each row has `rights`: what the site and the page declare about their "
        "use (ours).",
    )
    purpose: Purpose | None = Field(
        default=None,
        description="What the pages are for (ours): pages that are refused for it are no rows; no "
        "page is left out for its rights when null.",
    )
    webhook_url: WebhookUrl = None
    webhook_secret: JobWebhookSecret = None
    check_links: Flag = Field(
        default=False,
        description="Whether links that lead where the crawl does not go, such as to other sites, "
        "are requested once each at its end, to see whether they work (ours).",
    )
    scope: CrawlBounds = Field(
        default="site",
        description="What the crawl keeps to (ours): `site`; `folder`, the folder of the start "
        "page, where its redirects lead; or `auto`, the folder if the URL names one, which ends in "
        "a slash or an index document, or redirects to one below it, and else the site. "
        "`include_paths` hold as well.",
    )

    @property
    def subject(self) -> str:
        """What the crawl is of."""
        return self.url

    @property
    def row_limit(self) -> int:
        """The number of rows at most."""
        return self.max_pages

    @property
    def reads_rights(self) -> bool:
        """Whether the rows have `rights`."""
        return self.rights or self.purpose is not None

    @property
    def used_options(self) -> dict[str, object]:
        """The options that exclude others, by the names of `contract.conflicts`."""
        options = self.scrape_options
        return {
            "rights": self.rights,
            "a purpose": self.purpose,
            "respect_robots_txt=False": not self.respect_robots_txt,
            "check_links": self.check_links,
            "audit": self.audit,
            "sitemap": self.sitemap,
            "llms_txt": self.llms_txt,
            "filter_faceted_urls": self.filter_faceted_urls,
            "allow_external_links": self.allow_external_links,
            'scope="folder"': self.scope != "site",
            "respect_nofollow": self.respect_nofollow,
            "include_paths": self.include_paths or None,
            "exclude_paths": self.exclude_paths or None,
            "headers": options.headers or None,
            "cookies": options.cookies or None,
            "a browser": options.may_render,
        }

    @model_validator(mode="after")
    def _check_conflicts(self) -> Self:
        if conflict := conflict_of(self.used_options):
            raise PydanticCustomError("conflict", "{reason}", {"reason": conflict})
        return self


class FileSource(Strict):
    """A WARC or WACZ file on the machine of the service; of the local service alone."""

    path: FilePath = Field(description="Absolute path of the file.")
    version: Annotated[str, Field(max_length=limits.URL_LENGTH)] = Field(
        description="Size and time of change of the file; the crawl fails if they are others."
    )


class WebArchiveSource(Strict):
    """The captures of a web archive that are nearest to a time."""

    as_of: PastTime = Field(
        description="The time at which sites are read: of each URL the nearest capture counts. A "
        "day is its first moment in UTC."
    )
    archive: ArchiveSource = Field(
        default="wayback",
        description="The archive: `wayback`, the Wayback Machine, or `commoncrawl`.",
    )
    max_distance: CaptureDistance = Field(
        default=limits.CAPTURE_DISTANCE_DEFAULT,
        description="Days between a capture and `as_of` at most. A URL without such a capture is "
        "`not_archived`.",
    )


class CrawlSource(Strict):
    """Where pages come from: one of these, or the sites themselves."""

    file: FileSource | None = Field(
        default=None, description="An archive file; of the local service alone."
    )
    web_archive: WebArchiveSource | None = Field(
        default=None, description="A web archive, at about a date."
    )


class EarlierCrawl(Strict):
    """A crawl from which the pages are taken that their site calls unchanged."""

    job_id: StoredJobId = Field(
        description="Id of an earlier crawl of the account, with the same options of pages."
    )
    recheck: Recheck = Field(
        default=limits.RECHECK_DEFAULT,
        description="Share of the pages that the site calls unchanged which are fetched in full "
        "nevertheless, to check it: 0 to 1.",
    )


class CrawlSink(Strict):
    """What receives the responses of a crawl besides its rows."""

    warc: FilePath | None = Field(
        default=None,
        description="Absolute path of a WARC file to write; of the local service alone.",
    )


class ExtendedCrawlRequest(CrawlRequest):
    """POST /v1/crawls (ours): a crawl with other sources, sinks and sizes than the contract's."""

    url: HttpUrl = Field(
        default="",
        description="Where the crawl starts; the archive's first page if left out with a file.",
    )
    urls: PageUrls = Field(
        default=(),
        description="The pages of the crawl, one row each, in the place of `url`: no link of them "
        "is followed.",
    )
    max_pages: ExtendedMaxPages = Field(
        default=limits.MAX_PAGES_DEFAULT, description="Rows at most, failed pages included."
    )
    source: CrawlSource = Field(
        default=CrawlSource(), description="Where the pages come from; their sites by default."
    )
    base: EarlierCrawl | None = Field(
        default=None,
        description="An earlier crawl, whose unchanged pages are not fetched again (`since` of the "
        "toolkit); every page is fetched when null.",
    )
    sink: CrawlSink = Field(
        default=CrawlSink(), description="What is written besides the rows; nothing by default."
    )

    @property
    def subject(self) -> str:
        """What the crawl is of."""
        if self.source.file is not None:
            return self.source.file.path
        if len(self.urls) > 1:
            return f"{self.start} and {len(self.urls) - 1:,} more"
        return self.start

    @property
    def start(self) -> str:
        """The URL of the first page; "" for that of an archive."""
        return self.urls[0] if self.urls else self.url

    @property
    def row_limit(self) -> int:
        """The number of rows at most."""
        return len(self.urls) or self.max_pages

    @property
    def used_options(self) -> dict[str, object]:
        """The options that exclude others, by the names of `contract.conflicts`."""
        return {
            **super().used_options,
            "archive": self.source.file,
            "as_of": self.source.web_archive,
            "since": self.base,
            "a WARC file as out": self.sink.warc,
            "urls": self.urls or None,
            **{name: name in self.model_fields_set for name in ("max_pages", "max_depth")},
            "crawl_strategy": self.crawl_strategy != "bfs",
        }

    @model_validator(mode="after")
    def _check_start(self) -> Self:
        if self.url and self.urls:
            raise ValueError("url and urls both say what is crawled: send one of them")
        if not (self.start or self.source.file):
            raise ValueError("url must say where the crawl starts, or urls which pages it reads")
        return self


class NoParameters(Strict):
    """Job control: an empty object, or no body at all."""


class PageToVerify(Strict):
    """The data that was extracted from a page of a job (ours)."""

    job_id: str = Field(max_length=100, description="Id of the job that has the page.")
    url: str = Field(max_length=limits.URL_LENGTH, description="URL of its row.")
    extract: dict[str, Any] = Field(description="The extracted data, as in the row or changed.")
    digest: str | None = Field(
        default=None,
        max_length=64,
        description="Digest of the page that the data came from, `metadata.extract.evidence.digest`"
        " of the row; a page with another one is not compared.",
    )


class VerifyRequest(Strict):
    """POST /v1/verify (ours): compare extracted values with the stored pages."""

    pages: list[PageToVerify] = Field(
        min_length=1, max_length=limits.PAGES_TO_VERIFY, description="The pages, in any order."
    )


class WebhookTest(Strict):
    """POST /v1/webhooks/test (ours): one signed delivery to an endpoint, now."""

    webhook_url: HttpUrl = Field(description="Where to send the delivery.")
    webhook_secret: WebhookSecret | None = Field(
        default=None,
        description="Key of the delivery's HMAC-SHA256 signature; not signed without it.",
    )


def _one_url(value: Any) -> Any:
    """`startUrls` may be a list with one element."""
    if isinstance(value, list):
        if len(value) != 1:
            raise ValueError("startUrls must hold exactly one URL")
        return value[0]
    return value


def _advertiser_in_url(url: str) -> str:
    """Return the advertiser's id in the URL of its page; "" if there is none."""
    match = _ADVERTISER_IN_URL.search(url)
    return (match[1] or match[2]) if match else ""


def _advertiser_id(value: str) -> str:
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{limits.ADVERTISER_ID_LENGTH}}}", value):
        raise ValueError('must be an advertiser id such as "AR17828074650563772417"')
    return value


def _date_range(value: str) -> str:
    if value in DATE_RANGES:
        return value
    with suppress(ValueError):  # a day that does not exist
        first, _, last = value.partition("..")
        is_pair = re.fullmatch(rf"{_DATE}\.\.{_DATE}", value) is not None
        if is_pair and date.fromisoformat(first) <= date.fromisoformat(last):
            return value
    raise ValueError(f"must be one of {', '.join(DATE_RANGES)}, or YYYY-MM-DD..YYYY-MM-DD")


AdvertiserId = Annotated[
    str,
    AfterValidator(_advertiser_id),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": "^[A-Za-z0-9_-]+$",
            "minLength": 1,
            "maxLength": limits.ADVERTISER_ID_LENGTH,
        }
    ),
]
DateRange = Annotated[
    str,
    AfterValidator(_date_range),
    WithJsonSchema({"type": "string", "maxLength": limits.DATE_RANGE_LENGTH}),
]


class CreativesRequest(Strict):
    """POST /v1/data/partner-ads/transparency/creatives."""

    advertiser_id: AdvertiserId | None = Field(
        default=None,
        description="The advertiser's id at the source; optional if `url` contains it.",
    )
    url: HttpUrl | None = Field(default=None, description="The advertiser's page at the source.")
    start_urls: Annotated[
        HttpUrl | None, BeforeValidator(_one_url), Field(alias="startUrls", exclude=True)
    ] = Field(default=None, description="Alias of `url`; also accepts a list of one URL.")
    region: Annotated[str, Field(min_length=1, max_length=limits.REGION_LENGTH)] = Field(
        default="anywhere",
        description="Where the ads were shown: a two-letter country code, a name, or `anywhere`.",
    )
    limit: CreativesLimit = Field(
        default=limits.CREATIVES_LIMIT_DEFAULT, description="Maximum creatives of a page."
    )
    cursor: Annotated[str, Field(min_length=1, max_length=limits.CURSOR_LENGTH)] | None = Field(
        default=None,
        description="The `cursor` of the previous page; the first page when null.",
    )
    date_range: DateRange | None = Field(
        default=None,
        description="When the ads were shown: `yesterday`, `last_7_days`, `last_30_days` or "
        "`YYYY-MM-DD..YYYY-MM-DD`; any day when null.",
    )
    skip_details: Flag = Field(
        default=True,
        description="Whether to omit the details that only a creative's own page has, such as "
        "regions and texts.",
    )
    should_download_assets: Flag = Field(
        default=False, description="Whether to store the creatives' pictures and videos."
    )
    should_download_previews: Flag = Field(
        default=False, description="Whether to store a picture of each creative."
    )
    ocr: Flag = Field(default=False, description="Whether to read the text in pictures.")
    timeout_ms: TimeoutMs = Field(
        default=limits.TIMEOUT_MS_DEFAULT, description="Milliseconds for the whole call."
    )

    @model_validator(mode="before")
    @classmethod
    def _alias(cls, data: Any) -> Any:
        """`startUrls` is another name of `url`; both may be sent only if they agree."""
        if not isinstance(data, dict) or data.get("startUrls") is None:
            return data
        alias_url = _one_url(data["startUrls"])
        if data.get("url") not in (None, alias_url):
            raise ValueError("url and startUrls are two names of one field and must agree")
        return {**{k: v for k, v in data.items() if k != "startUrls"}, "url": alias_url}

    @model_validator(mode="after")
    def _check_advertiser(self) -> CreativesRequest:
        if self.url is None:
            if self.advertiser_id is None:
                raise ValueError("must name an advertiser: send advertiser_id or url")
            return self
        advertiser_id = _advertiser_in_url(self.url)
        if not advertiser_id:
            raise ValueError("url must be an advertiser's page: .../advertiser/AR...")
        if self.advertiser_id not in (None, advertiser_id):
            raise ValueError("advertiser_id and the advertiser in url disagree: send one of them")
        return self

    @property
    def advertiser(self) -> str:
        """The advertiser's id, from whichever field named it."""
        if self.advertiser_id is not None:
            return self.advertiser_id
        return _advertiser_in_url(self.url or "")


class CapturesRequest(Strict):
    """POST /v1/captures (ours): a page of a web archive's index."""

    url: HttpUrl = Field(description="The URL whose captures are listed.")
    source: ArchiveSource = Field(
        default="wayback",
        description="The archive: `wayback`, the Wayback Machine, or `commoncrawl`.",
    )
    match: CaptureMatch = Field(
        default="exact",
        description="Which captures: of this URL (`exact`), of those that begin with it "
        "(`prefix`), of its `host`, or of its `domain` with all hosts below it.",
    )
    start: ArchiveTime | None = Field(
        default=None, description="The earliest time of a capture; any when null."
    )
    end: ArchiveTime | None = Field(
        default=None, description="The latest time of a capture; any when null."
    )
    limit: CapturesListed = Field(
        default=limits.CAPTURES_LISTED_DEFAULT, description="Captures in one reply at most."
    )
    cursor: Annotated[str, Field(min_length=1, max_length=limits.CURSOR_LENGTH)] | None = Field(
        default=None, description="The `cursor` of the previous reply; the first page when null."
    )

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if self.start is not None and self.end is not None and self.start > self.end:
            raise ValueError("start must not be after end")
        return self
