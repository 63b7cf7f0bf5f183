"""What a caller may send: each start request with its bounds (contract, parts 4.1, 4.4, 4.8).

Fields marked *ours* are extras of this service, documented as such; the toolkit sends a field
only when it was given, so that another service never sees them unasked.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from webdata_nb.contract import limits
from webdata_nb.contract.fields import (
    Concurrency,
    Cookies,
    Country,
    CreativesLimit,
    DeviceName,
    Engine,
    ExtractSchema,
    Flag,
    Formats,
    Headers,
    HttpUrl,
    Language,
    MaxDepth,
    MaxPages,
    NumResults,
    Patterns,
    Query,
    ScrapeTimeoutMs,
    ScreenshotSide,
    Selectors,
    Strategy,
    Strict,
    TimeoutMs,
    WaitFor,
    WebhookSecret,
)

MarkdownMode = Literal["article", "full"]
DATE_RANGES: Final = ("yesterday", "last_7_days", "last_30_days")
# Of the two sources with pages: Google's Transparency Center, and Meta's Ad Library.
_ADVERTISER_IN_URL: Final = re.compile(
    r"/advertiser/([A-Za-z0-9_-]+)|/ads/library/?\?(?:[^#]*&)?view_all_page_id=([0-9]+)"
)
_DATE: Final = r"\d{4}-\d{2}-\d{2}"


class MarkdownOptions(Strict):
    """How Markdown is made: `article` keeps the main content, `full` the whole page."""

    mode: MarkdownMode | None = None


class ScreenshotOptions(Strict):
    """What a screenshot shows; widths and heights are CSS pixels."""

    capture: Literal["viewport", "full_page"] | None = None
    full_page: Flag | None = None
    width: ScreenshotSide | None = None
    height: ScreenshotSide | None = None

    @model_validator(mode="after")
    def _agree(self) -> ScreenshotOptions:
        said = self.capture is not None and self.full_page is not None
        if said and (self.capture == "full_page") != self.full_page:
            raise ValueError(
                'capture and full_page disagree: send one of them, or capture "full_page" '
                "with full_page true"
            )
        return self


class FormatOptions(Strict):
    """Per-format settings."""

    markdown: MarkdownOptions | None = None
    screenshot: ScreenshotOptions | None = None


class Extract(Strict):
    """What to extract from each scraped page: a prompt, a JSON-Schema-like object, or both."""

    prompt: Annotated[str, Field(min_length=1, max_length=limits.PROMPT_LENGTH)] | None = None
    schema_: Annotated[ExtractSchema | None, Field(alias="schema")] = None
    provider: Annotated[str, Field(min_length=1, max_length=limits.PROVIDER_LENGTH)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=limits.MODEL_LENGTH)] | None = None

    @model_validator(mode="after")
    def _something(self) -> Extract:
        if self.prompt is None and self.schema_ is None:
            raise ValueError("must have a prompt, a schema, or both")
        return self


class ScrapeOptions(Strict):
    """Applied to every page of a crawl. Times are milliseconds.

    `format_options`, `mobile_device`, `headers`, `cookies` and `render` are ours.
    """

    formats: Formats = ("markdown",)
    only_main_content: Flag = True
    wait_for: WaitFor | None = None
    timeout: ScrapeTimeoutMs = limits.SCRAPE_TIMEOUT_MS_DEFAULT
    mobile: Flag | None = None
    include_tags: Selectors = ()
    exclude_tags: Selectors = ()
    extract: Extract | None = None
    format_options: FormatOptions | None = None
    mobile_device: DeviceName | None = None
    headers: Headers | None = None
    cookies: Cookies | None = None
    render: Flag | Literal["auto"] | None = None

    @model_validator(mode="after")
    def _in_a_browser(self) -> ScrapeOptions:
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

    query: Query
    num_results: NumResults = limits.NUM_RESULTS_DEFAULT
    engine: Engine = "engine_one"
    language: Language = "en"
    country: Country | None = None
    safe_search: Flag = False
    formats: Formats = ("markdown",)
    format_options: FormatOptions | None = None
    only_main_content: Flag = True
    mobile: Flag | None = None
    mobile_device: DeviceName | None = None
    headers: Headers | None = None
    cookies: Cookies | None = None
    extract: Extract | None = None
    webhook_url: HttpUrl | None = None
    webhook_secret: WebhookSecret | None = None


class CrawlRequest(Strict):
    """POST /v1/crawl.

    Ours: `sitemap` seeds the crawl from the site's sitemaps as well, and `respect_nofollow`
    leaves links out that say `rel=nofollow`, or whose page says so of all of them.
    """

    url: HttpUrl
    max_pages: MaxPages = limits.MAX_PAGES_DEFAULT
    max_depth: MaxDepth = limits.MAX_DEPTH_DEFAULT
    concurrency: Concurrency = limits.CONCURRENCY_DEFAULT
    crawl_strategy: Strategy = "bfs"
    allow_external_links: Flag = False
    respect_robots_txt: Flag = True
    include_paths: Patterns = ()
    exclude_paths: Patterns = ()
    scrape_options: ScrapeOptions = ScrapeOptions()
    filter_faceted_urls: Flag = False
    sitemap: Flag = False
    respect_nofollow: Flag = False
    webhook_url: HttpUrl | None = None
    webhook_secret: WebhookSecret | None = None


class NoParameters(Strict):
    """Job control: an empty object, or no body at all."""


class WebhookTest(Strict):
    """POST /v1/webhooks/test (ours): one signed delivery to an endpoint, now."""

    webhook_url: HttpUrl
    webhook_secret: WebhookSecret | None = None


def _one_url(value: Any) -> Any:
    """`startUrls` may be a list with one element."""
    if isinstance(value, list):
        if len(value) != 1:
            raise ValueError("startUrls must hold exactly one URL")
        return value[0]
    return value


def _in_url(url: str) -> str:
    """Return the advertiser's id in the address of its page; "" where there is none."""
    found = _ADVERTISER_IN_URL.search(url)
    return (found[1] or found[2]) if found else ""


def _advertiser_id(value: str) -> str:
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{limits.ADVERTISER_ID_LENGTH}}}", value):
        raise ValueError('must be an advertiser id such as "AR17828074650563772417"')
    return value


def _date_range(value: str) -> str:
    if value in DATE_RANGES or _is_range(value):
        return value
    raise ValueError(f"must be one of {', '.join(DATE_RANGES)}, or YYYY-MM-DD..YYYY-MM-DD")


def _is_range(value: str) -> bool:
    if not re.fullmatch(rf"{_DATE}\.\.{_DATE}", value):
        return False
    first, _, last = value.partition("..")
    try:
        return date.fromisoformat(first) <= date.fromisoformat(last)
    except ValueError:
        return False


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

    advertiser_id: AdvertiserId | None = None
    url: HttpUrl | None = None
    start_urls: Annotated[
        HttpUrl | None, BeforeValidator(_one_url), Field(alias="startUrls", exclude=True)
    ] = None
    region: Annotated[str, Field(min_length=1, max_length=limits.REGION_LENGTH)] = "anywhere"
    limit: CreativesLimit = limits.CREATIVES_LIMIT_DEFAULT
    cursor: Annotated[str, Field(min_length=1, max_length=limits.CURSOR_LENGTH)] | None = None
    date_range: DateRange | None = None
    skip_details: Flag = True
    should_download_assets: Flag = False
    should_download_previews: Flag = False
    ocr: Flag = False
    timeout_ms: TimeoutMs = limits.TIMEOUT_MS_DEFAULT

    @model_validator(mode="before")
    @classmethod
    def _alias(cls, data: Any) -> Any:
        """`startUrls` is another name of `url`; both may be sent only if they agree."""
        if not isinstance(data, dict) or data.get("startUrls") is None:
            return data
        named = _one_url(data["startUrls"])
        if data.get("url") not in (None, named):
            raise ValueError("url and startUrls are two names of one field and must agree")
        return {**{k: v for k, v in data.items() if k != "startUrls"}, "url": named}

    @model_validator(mode="after")
    def _one_advertiser(self) -> CreativesRequest:
        if self.url is None:
            if self.advertiser_id is None:
                raise ValueError("must name an advertiser: send advertiser_id or url")
            return self
        found = _in_url(self.url)
        if not found:
            raise ValueError("url must be an advertiser's page: .../advertiser/AR...")
        if self.advertiser_id not in (None, found):
            raise ValueError("advertiser_id and the advertiser in url disagree: send one of them")
        return self

    @property
    def advertiser(self) -> str:
        """The advertiser's id, from whichever field named it."""
        if self.advertiser_id is not None:
            return self.advertiser_id
        return _in_url(self.url or "")


StartRequest = SearchRequest | CrawlRequest
