"""Models of the service's replies (contract, part 2), which keep unknown fields.

Models of rows document and check one row. Status replies leave `data` as plain objects, because
the toolkit reads rows into columns and not into models.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from webdata_nb.contract.choices import FORMAT_VALUES, KeyScope, ValueType
from webdata_nb.contract.events import Cost
from webdata_nb.contract.operator_views import ColumnKind
from webdata_nb.contract.outcomes import ClaimChecks, JobKind, JobStatus

# Base models of replies, and the type of their rows.


def _skip_copy(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Accept decoded rows without copying them; a reply may hold a thousand pages."""
    if type(value) is list and all(type(row) is dict for row in value):
        return value
    return validate(value)


Rows = Annotated[list[dict[str, Any]], WrapValidator(_skip_copy)]


class RowsOf:
    """Annotates `Rows` with the model that the JSON schema shows for each row."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "array", "items": handler(self._model.__pydantic_core_schema__)}


class Reply(BaseModel):
    """A reply; unknown fields are kept in `model_extra`."""

    # Built at the first use: a process uses few of the replies, and building all takes long.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True, defer_build=True)

    def stated(self, name: str) -> Any:
        """Return a field of the reply; None if the service left it out."""
        return getattr(self, name) if name in self.model_fields_set else None


class SuccessReply(Reply):
    """A reply with the contract's `success` field."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )


# Models of the content of a scraped page.


_TYPES: Final[dict[ValueType, Any]] = {
    "text": str,
    "png": str,
    "json": dict[str, Any],
    "texts": list[str],
    "items": list[dict[str, Any]],
    "integer": int,
    "number": float,
    "boolean": bool,
}

if TYPE_CHECKING:
    _Formats = Reply
else:
    _Formats = create_model(
        "_Formats",
        __base__=Reply,
        **{
            name: (_TYPES[value.type] | None, Field(default=None, description=value.description))
            for name, value in FORMAT_VALUES.items()
        },
    )


class PageFields(_Formats):
    """The content of a scraped page, each field only if its format was requested."""

    extract: Any = Field(default=None, description="Result of the requested extraction.")
    metadata: dict[str, Any] | None = Field(
        default=None, description="Title, description, language and further metadata."
    )


# Models of replies about jobs of either kind: start, cancel, retry and list.


class StartReply(Reply):
    """Reply to a start; the job is stored before it is sent."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    status: str = Field(description="Always `started`; the job itself is `pending`.")
    message: str = Field(default="", description="A readable message.")


class CancelReply(Reply):
    """Reply to a cancel: a search has `message`, a crawl `status`."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    message: str | None = Field(default=None, description="A readable message; only of searches.")
    status: str | None = Field(default=None, description="Always `cancelled`; only of crawls.")


class DeleteReply(Reply):
    """Reply to the deletion of a job."""

    success: bool = Field(
        description="Whether the job is deleted; always true in a reply with status 200."
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    status: str = Field(description="Always `deleted`.")


class RetryReply(Reply):
    """Reply to a retry: a search has `new_job_id`, a crawl `job_id`."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str | None = Field(
        default=None, description="Id of the new job, a UUID; only of crawls."
    )
    new_job_id: str | None = Field(
        default=None, description="Id of the new job, a UUID; only of searches."
    )
    original_job_id: str | None = Field(default=None, description="Id of the job that was retried.")
    message: str | None = Field(default=None, description="A readable message; only of searches.")
    status: str | None = Field(default=None, description="Always `pending`; only of crawls.")
    type: str | None = Field(default=None, description="Always `search`; only of searches.")

    @property
    def started(self) -> str:
        """The id of the new job."""
        return self.new_job_id or self.job_id or ""


class JobSummary(Reply):
    """One of the caller's jobs (ours). `completed` and `total` count rows."""

    job_id: str = Field(description="Id of the job, a UUID.")
    type: JobKind = Field(description="Whether it is a search or a crawl.")
    status: JobStatus = Field(description="State of the job.")
    subject: str = Field(default="", description="Query of a search, or start URL of a crawl.")
    created_at: datetime = Field(description="When it was created (UTC).")
    started_at: datetime | None = Field(
        default=None, description="When it started to run (UTC); null before."
    )
    finished_at: datetime | None = Field(
        default=None, description="When it ended (UTC); null before."
    )
    total: int = Field(
        default=0,
        description="Rows of the job; an estimate while it runs.",
    )
    completed: int = Field(default=0, description="Rows so far.")
    error: str | None = Field(default=None, description="Why it failed; null if it did not.")


class JobList(SuccessReply):
    """GET /v1/jobs (ours): newest first; `cursor` is there when older ones exist."""

    jobs: list[JobSummary] = Field(description="The jobs, newest first.")
    cursor: str | None = Field(
        default=None, description="Where the next page begins; absent on the last page."
    )


# Models of replies about searches: rows, status, start and export.


class Attempt(Reply):
    """One entry of `fallback_chain`: a request to a provider.

    `detail` is an extension: why the request failed.
    """

    provider: str = Field(description="Name of the provider.")
    status: str = Field(
        description="Outcome: `ok`, `empty`, or the error: "
        "`rate_limited`, `blocked`, `auth`, `timeout` or `error`."
    )
    results_count: int = Field(default=0, description="Number of results.")
    elapsed_ms: float = Field(default=0, description="Duration in milliseconds.")
    detail: str | None = Field(default=None, description="Why the request failed (ours).")


class SearchItem(PageFields):
    """One ranked result."""

    id: str = Field(description="Id of the result within the job.")
    rank: int = Field(description="Rank of the result, from 1.")
    url: str = Field(description="Address of the result.")
    title: str = Field(default="", description="Title of the result.")
    snippet: str = Field(default="", description="Excerpt from the provider.")
    success: bool = Field(
        default=True,
        description="Whether nothing failed; true for results that are not scraped.",
    )
    scraped: bool = Field(default=False, description="Whether the page was loaded.")
    error: str | None = Field(
        default=None, description="Why the page could not be scraped; null if it was."
    )


class SearchStatus(SuccessReply, Cost):
    """GET /v1/search/{job_id}; `time_taken` is seconds.

    `providers_usable`, `providers_unusable`, `signature_agent` and the cost are extensions.
    """

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    query: str = Field(default="", description="Query of the search.")
    engine_requested: str | None = Field(default=None, description="Engine that the request named.")
    engine_used: str | None = Field(
        default=None, description="Engine whose provider replied; null before."
    )
    provider_used: str | None = Field(
        default=None, description="Provider that replied; null before."
    )
    fallback_used: bool | None = Field(
        default=None, description="Whether a provider other than the first one replied."
    )
    fallback_chain: list[Attempt] = Field(
        default_factory=list, description="Requests to providers, in order."
    )
    providers_usable: list[str] = Field(
        default_factory=list, description="Usable providers of the engine (ours)."
    )
    providers_unusable: dict[str, str] = Field(
        default_factory=dict,
        description="Unusable providers of the engine, and what each lacks (ours).",
    )
    signature_agent: str | None = Field(
        default=None,
        description="Where sites find the key that verifies the requests for result pages (ours); "
        "null if they were not signed.",
    )
    total_results: int = Field(default=0, description="Results of the job so far.")
    completed_results: int = Field(
        default=0,
        description="Results that are final: scraped, failed, or without a page to scrape.",
    )
    time_taken: float | None = Field(
        default=None, description="Processing time so far, in seconds; null before the job runs."
    )
    data: Annotated[Rows, RowsOf(SearchItem)] = Field(
        default_factory=list, description="The results, by rank."
    )
    error: str | None = Field(default=None, description="Why the job failed; null if it did not.")
    result_expired: bool | None = Field(
        default=None, description="True once the rows are past their retention; absent before."
    )
    retention_hours: float | None = Field(
        default=None, description="Retention of the rows in hours, once they have expired."
    )
    expired_at: datetime | None = Field(
        default=None, description="When the rows expired (UTC); absent before."
    )


class SearchStart(StartReply):
    """Reply to the start of a search; with `?wait=` (ours) it has the `result`."""

    result: SearchStatus | None = Field(
        default=None,
        description="The status of the search if it ended within `wait`; else absent (ours).",
    )


class ExportedResult(Reply):
    """One entry of a search's JSON export."""

    url: str = Field(description="Address of the result.")
    title: str = Field(default="", description="Title of the result.")
    snippet: str = Field(default="", description="Excerpt from the provider.")
    success: bool = Field(default=True, description="Whether nothing failed.")


class SearchExport(Reply):
    """A search's JSON export."""

    query: str = Field(description="Query of the search.")
    results: list[ExportedResult] = Field(description="The results, by rank.")
    partial: bool = Field(
        default=False,
        description="Whether the job has not completed, so that results may be missing.",
    )
    status: JobStatus | None = Field(
        default=None, description="The job's status if the export is partial."
    )


# Models of replies about crawls: rows, status and receipt.


class CrawlPage(PageFields):
    """One crawled page; `time_taken` is seconds, `depth` link depth from the start page."""

    url: str | None = Field(default=None, description="Address of the page, after redirects.")
    title: str | None = Field(default=None, description="Title of the page.")
    status: str | None = Field(default=None, description="`completed` or `failed`.")
    status_code: int | None = Field(
        default=None, description="HTTP status of the page; null without a reply."
    )
    success: bool | None = Field(default=None, description="Whether the page was scraped.")
    error: str | None = Field(default=None, description="Why it was not; null if it was.")
    depth: int | None = Field(
        default=None, description="Link depth from the start page, which is 0."
    )
    time_taken: float | None = Field(default=None, description="Duration in seconds.")
    quality: Any = Field(
        default=None,
        description="Content measures such as `word_count` and `score` (0 to 1).",
    )
    content_hash: str | None = Field(default=None, description="Hash of the page's content.")
    fetched_at: datetime | None = Field(default=None, description="When the page arrived (UTC).")
    rights: dict[str, Any] | None = Field(
        default=None,
        description="What the page may be used for (ours), if requested: `verdicts` by purpose, "
        "`robots_allowed`, and the `signals` with their lines.",
    )
    capture_distance_s: float | None = Field(
        default=None,
        description="Seconds from the `as_of` of a dated crawl (ours) to the capture, negative if "
        "it is earlier; null without a capture, and in other crawls.",
    )


class Revalidation(Reply):
    """The rows of an incremental crawl (ours) that the site called unchanged.

    A random sample of them is fetched in full. `bound` is the share of these rows that may have
    changed at most, with a confidence of 95 % (Clopper and Pearson).
    """

    trusted: int = Field(description="Rows that were taken from the earlier crawl.")
    checked: int = Field(description="Rows that were fetched in full, to check the claim.")
    contradicted: int = Field(description="Rows of these that had changed.")
    bound: float | None = Field(
        default=None,
        description="Share of the rows called unchanged that may have changed at most, with a "
        "confidence of 95 %; null if none was checked.",
    )

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Revalidation | None:
        """Return the statement of a receipt's counts; None if no row was called unchanged."""
        checks = ClaimChecks.of(counts)
        return None if checks is None else cls.model_validate(checks, from_attributes=True)


class Receipt(Reply):
    """Every URL seen, by outcome: counts, and at most 20 examples an outcome.

    `contract.outcomes` defines the outcomes. `warning` is an extension: a likely mistake in a
    completed crawl, such as a start page with status 404; None without one. `revalidation`,
    `signature_agent`, `low_confidence` and `folder` are extensions as well.
    """

    counts: dict[str, int] = Field(default_factory=dict, description="URLs by outcome.")
    examples: dict[str, list[str]] = Field(
        default_factory=dict, description="Up to 20 URLs of each outcome."
    )
    warning: str | None = Field(
        default=None,
        description="A likely mistake in a completed crawl (ours); null without one.",
    )
    revalidation: Revalidation | None = Field(
        default=None,
        description="The rows of an incremental crawl that the site called unchanged (ours); null "
        "without any.",
    )
    signature_agent: str | None = Field(
        default=None,
        description="Where sites find the key that verifies the crawl's requests for pages (ours); "
        "null if they were not signed.",
    )
    low_confidence: dict[str, int] = Field(
        default_factory=dict,
        description="Rows whose `quality` has `low_confidence`, by its reason (ours), such as "
        "`no text layer`; empty without any.",
    )
    folder: str | None = Field(
        default=None,
        description="Site and path that a crawl of a folder kept to, such as `example.com/docs/` "
        "(ours); null for a crawl of a site.",
    )


class ReceiptEntry(Reply):
    """The outcome of one URL."""

    url: str = Field(description="The URL in the crawl's canonical form.")
    outcome: str = Field(
        description="Outcome of the URL, such as `fetched`, `robots` or `failed:http_404`."
    )
    detail: str = Field(
        default="",
        description="Details, such as the page of which it is a duplicate; may be empty.",
    )


class ReceiptPage(SuccessReply):
    """GET /v1/crawl/{job_id}/receipt (ours): entries in the order of their URLs.

    `total_results` counts the selected entries: all, those of one outcome, or that of one URL.
    `url` is the form in which the URL was looked up.
    """

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    total_results: int = Field(
        description="Selected entries: all, those of one outcome, or that of one URL."
    )
    page: int = Field(default=1, description="Page of the entries, from 1.")
    per_page: int = Field(default=0, description="Entries per page.")
    url: str | None = Field(
        default=None,
        description="The form in which the requested URL was looked up.",
    )
    data: list[ReceiptEntry] = Field(
        default_factory=list, description="The entries, in the order of their URLs."
    )


class CrawlStatus(SuccessReply, Cost):
    """GET /v1/crawl/{job_id}; `receipt`, `error` and the cost are extensions."""

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    total_pages: int = Field(
        default=0,
        description="Pages of the crawl; an estimate while it runs.",
    )
    completed_pages: int = Field(default=0, description="Pages that are rows.")
    total_results: int = Field(default=0, description="Rows of the job so far.")
    page: int = Field(default=1, description="Page of the rows, from 1.")
    per_page: int = Field(default=0, description="Rows per page.")
    data: Annotated[Rows, RowsOf(CrawlPage)] = Field(
        default_factory=list, description="The rows of this page, in the order of the crawl."
    )
    error: str | None = Field(
        default=None, description="Why the job failed; null if it did not (ours)."
    )
    time_taken: float | None = Field(
        default=None, description="Processing time so far, in seconds; null before the job runs."
    )
    receipt: Receipt | None = Field(
        default=None, description="The outcome of every URL that the crawl saw (ours)."
    )


# Models of the facts of a crawl's pages, which an audit compares (ours).


class PageLink(Reply):
    """A page that a page links to, each once."""

    url: str = Field(description="Absolute URL, without fragment.")
    text: str | None = Field(
        default=None,
        description="The first link text, the alternative text of its image, or its `aria-label` "
        "or `title`, up to 200 characters; null without the option `audit`.",
    )
    rel: str | None = Field(
        default=None,
        description="The `rel` of the first link; without the option `audit` only `nofollow`.",
    )
    internal: bool = Field(description="Whether it is on the site of the page.")


class PageRedirect(Reply):
    """A redirect on the way to a page."""

    url: str = Field(description="The URL that redirected.")
    status_code: int = Field(description="The HTTP status of the redirect.")


class PageAlternate(Reply):
    """A version of a page in another language."""

    language: str = Field(description="The `hreflang`.")
    url: str | None = Field(default=None, description="Absolute URL; null if it is malformed.")


class PageAudit(Reply):
    """What a page declares; lists have the elements in document order, the first 500 at most."""

    is_html: bool = Field(description="Whether it was HTML, and not a document of another type.")
    bytes: int = Field(description="Size of the decoded body, in bytes.")
    language: str | None = Field(default=None, description="The `lang` of the `html` element.")
    titles: list[str] = Field(description="Texts of the `title` elements.")
    descriptions: list[str] = Field(description="Contents of `meta name=description`.")
    h1s: list[str] = Field(description="Texts of the `h1` elements.")
    canonicals: list[str | None] = Field(
        description="Targets of `link rel=canonical`; null if one is malformed."
    )
    malformed_canonicals: list[str] = Field(
        default_factory=list, description="The malformed ones as they are written."
    )
    robots: list[str] = Field(description="Contents of `meta name=robots`.")
    x_robots: list[str] = Field(description="Values of the header `X-Robots-Tag`.")
    hreflang: list[PageAlternate] = Field(description="Versions in other languages.")
    viewport: str | None = Field(default=None, description="Content of `meta name=viewport`.")
    refresh: str | None = Field(default=None, description="Content of `meta http-equiv=refresh`.")
    images: int = Field(description="Number of `img` elements.")
    images_without_alt: int = Field(
        description="Number of those without `alt` that are not hidden from assistive technology."
    )
    examples_without_alt: list[str] = Field(description="URLs of the first 20 of them.")
    insecure: list[str] = Field(
        description="The first 20 URLs without TLS that a page with TLS loads or sends forms to."
    )
    structured_data_errors: list[str] = Field(
        description="Why JSON-LD blocks are not valid; the first 20."
    )


class PageFacts(Reply):
    """The facts of one URL that a crawl decided on: a page, a failure, or one not fetched."""

    url: str = Field(description="The URL in the crawl's canonical form.")
    final_url: str = Field(description="The URL after redirects.")
    position: int | None = Field(
        default=None, description="Position of its row in the crawl, from 0; null without a row."
    )
    result: str = Field(
        description="`page`, `failed`, `robots` (robots.txt disallows it), or `stopped` at a "
        "redirect that was not followed; with the option `check_links` also the outcome of a link "
        "that leads where the crawl did not go, such as `link_ok` or `link_broken`."
    )
    reason: str = Field(default="", description="The kind of failure, or why it was stopped.")
    error: str = Field(default="", description="The failure in words.")
    status_code: int | None = Field(
        default=None,
        description="HTTP status; null where there was no reply.",
    )
    fetch_seconds: float | None = Field(
        default=None,
        description="Seconds until the page was there, if it took a second or more; null without "
        "the option `audit`.",
    )
    redirects: list[PageRedirect] = Field(
        default_factory=list,
        description="The redirects, in order; of a page empty without the option `audit`.",
    )
    canonical: str | None = Field(default=None, description="The canonical URL that it declares.")
    content_hash: str | None = Field(default=None, description="Hash of the page's content.")
    in_sitemap: bool | None = Field(
        default=None,
        description="Whether a sitemap or llms.txt lists it; null if the crawl read none.",
    )
    links: list[PageLink] = Field(default_factory=list, description="The pages it links to.")
    sketch: str = Field(
        default="",
        description="Base64 of the smallest hashes (4 bytes each) of its pairs of words: pages "
        "with many in common are nearly the same. Empty without the option `audit`.",
    )
    audit: PageAudit | None = Field(
        default=None, description="What it declares; null without the option `audit`."
    )


class PageFactsPage(SuccessReply):
    """GET /v1/crawl/{job_id}/page-facts (ours), in the order in which the URLs were fetched."""

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    data: Annotated[Rows, RowsOf(PageFacts)] = Field(
        default_factory=list, description="The facts of this page of the listing."
    )
    cursor: str | None = Field(
        default=None,
        description="Continues the listing; absent from its last page, which is empty.",
    )


# Models of the reply about the captures of web archives (ours).


IndexOutcome: TypeAlias = Literal["listed", "no_captures", "excluded", "unavailable"]


class CaptureEntry(Reply):
    """One capture in the index of a web archive."""

    url: str = Field(description="The URL that was captured.")
    captured_at: datetime = Field(description="When it was captured (UTC).")
    status_code: int | None = Field(
        default=None,
        description="The HTTP status; null where the index does not tell, as of a page that was "
        "the same as before.",
    )
    mime_type: str | None = Field(default=None, description="The type of the content.")
    digest: str | None = Field(
        default=None, description="SHA-1 of the content in base 32; equal for equal content."
    )
    length: int | None = Field(default=None, description="Bytes of the stored record.")
    archive_url: str | None = Field(
        default=None, description="Where the archive has it as it was sent."
    )
    index: str = Field(description="The index that has it: `wayback`, or a crawl of Common Crawl.")
    offset: int | None = Field(
        default=None,
        description="Of Common Crawl: first byte of the record, in the WARC file at `archive_url`.",
    )


class IndexRead(Reply):
    """What became of one question to one index."""

    index: str = Field(description="`wayback`, or the crawl of Common Crawl.")
    outcome: IndexOutcome = Field(
        description="`listed`; `no_captures` if it has none; `excluded` if the archive shows none "
        "of the site; `unavailable` if it did not answer as documented."
    )
    detail: str = Field(default="", description="Details of the outcome, in words.")
    captures: int = Field(default=0, description="Captures in this reply.")


class CapturesReply(SuccessReply):
    """Reply to POST /v1/captures."""

    captures: list[CaptureEntry] = Field(
        description="The captures in the order of the index. One with the content of the one "
        "before is left out where the index allows it."
    )
    indexes: list[IndexRead] = Field(description="The indexes that were asked.")
    cursor: str | None = Field(
        default=None, description="The `cursor` of the next reply; null at the end."
    )


# Models of replies about advertiser creatives and advertisers.


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


# Models of replies about credits, engines and the health of the service.


class Weight(Reply):
    """The price of one operation."""

    platform: str = Field(description="Platform of the operation.")
    operation: str = Field(description="Name of the operation.")
    weight: float = Field(description="Credits that one unit costs.")


class UsedCredits(Reply):
    """Charges for one operation in the current billing period."""

    platform: str = Field(description="Platform of the operation.")
    operation: str = Field(description="Name of the operation.")
    units: int = Field(description="Units charged since the period began, such as pages.")
    credits: float = Field(description="Credits charged for them.")


class UsageReply(SuccessReply):
    """GET /v1/usage (ours): credits and active work of the caller's account.

    `monthly` is the grant of each billing period, `monthly_left` and `topup` can still be reserved,
    `reserved` is held by active jobs, `used` was charged since `period_start`. `monthly`,
    `monthly_left` and `limit` are null without a limit.
    """

    plan: str = Field(description="Name of the account's plan.")
    monthly: float | None = Field(
        default=None, description="Credits that each billing period grants; null without a limit."
    )
    monthly_left: float | None = Field(
        default=None,
        description="Credits of the period's grant that can still be reserved; null without a "
        "limit.",
    )
    topup: float = Field(
        default=0,
        description="Bought credits that can still be reserved, beyond the end of the period.",
    )
    reserved: float = Field(default=0, description="Credits reserved by active jobs and calls.")
    used: float = Field(default=0, description="Credits charged since `period_start`.")
    period_start: datetime = Field(description="When the billing period began (UTC).")
    period_end: datetime = Field(description="When it ends (UTC).")
    active: int = Field(default=0, description="Active jobs and calls.")
    limit: int | None = Field(
        default=None,
        description="Most active jobs and calls at once; null without a limit.",
    )
    scopes: list[KeyScope] = Field(
        default_factory=list, description="What the key of this request opens."
    )
    key_ends_at: datetime | None = Field(
        default=None, description="When the key of this request ends (UTC); null if it does not."
    )
    operations: list[UsedCredits] = Field(
        default_factory=list, description="Charges of the period, by operation."
    )


class EngineEntry(Reply):
    """One provider of an engine (ours): `position` from 1, `why` it is unusable now.

    `resting_s` is the remaining pause after a failure, in seconds.
    """

    engine: str = Field(description="Name of the engine.")
    position: int = Field(description="Position in the fallback order, from 1.")
    provider: str = Field(description="Name of the provider.")
    usable: bool = Field(description="Whether it is usable now.")
    why: str | None = Field(
        default=None, description="Why it is unusable now; null if it is usable."
    )
    resting_s: float = Field(
        default=0.0, description="Remaining seconds of the pause after a failure."
    )


class EngineList(SuccessReply):
    """GET /v1/engines (ours): the providers of each engine, without addresses and keys."""

    engines: list[EngineEntry] = Field(
        description="The providers of each engine, in fallback order."
    )


class DaskHealth(Reply):
    """The Dask cluster of a service that was started with ``--dask``."""

    scheduler: Literal["connected", "lost"] = Field(
        description="Whether the scheduler answers. The service itself runs jobs without it."
    )
    workers: int = Field(description="Number of workers that run jobs of this service.")


class Health(Reply):
    """GET /healthz and /readyz (ours): a status, and why the service is not ready."""

    status: Literal["ok", "unavailable"] = Field(
        description="`ok`, or `unavailable` with status 503."
    )
    reason: str | None = Field(
        default=None, description="Why the service is not ready; null if it is."
    )
    replica: str | None = Field(
        default=None,
        description="Of /readyz: which process of a service on PostgreSQL answered.",
    )
    dask: DaskHealth | None = Field(
        default=None,
        description="Of /readyz: the Dask cluster that runs the jobs, if any.",
    )


class SiteReply(Reply):
    """Reply of a local service that removed a site: how many pages its search has forgotten."""

    removed: int = Field(description="Number of pages.")


# Models of the reply about verified values (ours).


PageVerdict: TypeAlias = Literal["compared", "gone", "changed", "failed"]
ValueVerdict: TypeAlias = Literal["verbatim", "derived", "unsupported"]


class VerifiedValue(Reply):
    """What a page says of one extracted value."""

    pointer: str = Field(description="JSON pointer of the value in the extracted data.")
    verdict: ValueVerdict = Field(
        description="`verbatim` as it is on the page, `derived` in another notation, or "
        "`unsupported`: not on the page, or there for another record or field."
    )
    start: int | None = Field(
        default=None, description="First character of its place in the page's source."
    )
    end: int | None = Field(default=None, description="Character after its place.")
    quote: str | None = Field(
        default=None, description="The source at that place, at most 300 characters."
    )
    reason: str = Field(description="Why it has this verdict; empty if that is clear.")


class VerifiedPage(Reply):
    """What became of one page, and its values if it was compared."""

    job_id: str = Field(description="The job, as in the request.")
    url: str = Field(description="The URL, as in the request.")
    outcome: PageVerdict = Field(
        description="`compared`; `gone` if the page is not stored or not any more; `changed` if "
        "it is another one than that of the digest; `failed` if it took too much time or memory, "
        "or the stored page is damaged."
    )
    digest: str | None = Field(
        default=None, description="SHA-256 of the stored source, the first 32 hex digits."
    )
    detail: str = Field(default="", description="Details of the outcome, in words.")
    values: list[VerifiedValue] = Field(
        default_factory=list, description="The values that are not null, in their order."
    )


class VerifyReply(SuccessReply):
    """Reply to POST /v1/verify."""

    pages: list[VerifiedPage] = Field(description="The pages, in the order of the request.")


# Models of replies about webhook deliveries.


class WebhookDelivery(Reply):
    """One webhook delivery (ours); `endpoint` is only the host, `payload` is what was signed."""

    delivery_id: str = Field(description="Id of the delivery, a UUID.")
    event_id: str = Field(
        description="Id of the event: the same in every attempt and replay, and in the header "
        "`X-Webhook-Id`."
    )
    job_id: str = Field(description="Id of the job.")
    event: str = Field(description="Name of the event.")
    endpoint: str = Field(description="Host of the endpoint; the rest of the URL is not shown.")
    status: Literal["pending", "delivered", "failed"] = Field(
        description="Pending, acknowledged, or failed after the last attempt."
    )
    attempts: int = Field(description="Attempts so far.")
    replay: bool = Field(description="Whether it is a replay.")
    status_code: int | None = Field(
        default=None, description="HTTP status of the last attempt; null without a reply."
    )
    error: str | None = Field(
        default=None, description="Why the last attempt failed; null if it did not."
    )
    created_at: datetime = Field(description="When the event happened (UTC).")
    next_attempt_at: datetime | None = Field(
        default=None, description="When the next attempt is due (UTC); null after the end."
    )
    ended_at: datetime | None = Field(
        default=None, description="When it was acknowledged or failed (UTC); null before."
    )
    payload: dict[str, Any] = Field(description="The body that is sent and signed.")


class DeliveryList(SuccessReply):
    """GET /v1/webhooks/deliveries (ours): newest first; `cursor` if older ones exist."""

    deliveries: list[WebhookDelivery] = Field(description="The deliveries, newest first.")
    cursor: str | None = Field(
        default=None, description="Where the next page begins; absent on the last page."
    )


class ReplayReply(SuccessReply):
    """POST /v1/webhooks/deliveries/{delivery_id}/replay (ours)."""

    delivery: WebhookDelivery = Field(description="The new delivery.")


class WebhookStats(SuccessReply):
    """GET /v1/webhooks/stats (ours): deliveries of the caller's jobs by state and by event."""

    total: int = Field(description="Deliveries of the account's jobs.")
    pending: int = Field(description="Pending deliveries.")
    delivered: int = Field(description="Acknowledged deliveries.")
    failed: int = Field(description="Failed deliveries.")
    attempts: int = Field(description="Attempts of all deliveries.")
    by_event: dict[str, int] = Field(default_factory=dict, description="Deliveries by event name.")


class WebhookTestReply(Reply):
    """POST /v1/webhooks/test (ours): `success` is whether the endpoint acknowledged it."""

    success: bool = Field(description="Whether the endpoint acknowledged the delivery.")
    event: str = Field(description="Name of the event that was sent.")
    status_code: int | None = Field(
        default=None, description="HTTP status of the endpoint's reply; null without one."
    )
    error: str | None = Field(
        default=None, description="Why it was not acknowledged; null if it was."
    )
    elapsed_ms: float = Field(description="Milliseconds until the reply.")


# Models of error bodies.


class FieldProblem(Reply):
    """One invalid field of a 422, without its value."""

    loc: list[str | int] = Field(
        description="Path to the field: `body`, `query` or `header` first."
    )
    msg: str = Field(description="What is invalid, without the value.")
    type: str = Field(description="Error type, for programs.")


class Refusal(Reply):
    """Every error body except that of a 422: a message without secrets."""

    detail: str = Field(description="What is wrong, without secrets.")


class LimitReached(Refusal):
    """The body of a 429: the limit that was reached, as a message and a code."""

    code: Literal["concurrency", "quota", "rate"] = Field(
        description="`concurrency`: as many active jobs and calls as the plan allows. "
        "`quota`: not enough credits. `rate`: too many requests or connections at once."
    )


class PermissionRefusal(Refusal):
    """The body of a 403: what the key has no right to."""

    code: Literal["scope"] | None = Field(
        default=None,
        description="`scope` if the key lacks the scope that the operation needs; `detail` names "
        "it, and those that the key has.",
    )


class SourceFailure(Refusal):
    """The body of a 502: why an external source gave no usable reply."""

    code: Literal["refused"] | None = Field(
        default=None,
        description="`refused` if it does not accept the key or the request, so that another "
        "attempt would fail as well; absent for a passing failure.",
    )


class ValidationErrorReply(Reply):
    """The body of a 422: the invalid fields."""

    detail: list[FieldProblem] = Field(description="The invalid fields.")


class OperatorColumn(Reply):
    """A column of an operator's view."""

    name: str = Field(description="Name of the column, as in `rows`.")
    kind: ColumnKind = Field(
        description="What its values are: text, a count, bytes, seconds, or a time in Unix seconds."
    )


class OperatorAnswer(Reply):
    """The answer to one question of the operator, over all accounts."""

    view: str = Field(description="Name of the view.")
    question: str = Field(description="The question that it answers.")
    as_of: float = Field(
        description="When the database was read, in Unix seconds. Requests share an answer for two "
        "seconds, that of `size` for a minute."
    )
    columns: list[OperatorColumn] = Field(description="Columns of the rows, in order.")
    rows: list[dict[str, str | float | None]] = Field(
        description="Rows, by column name; null without a value."
    )


class OperatorDelivery(Reply):
    """A webhook delivery of a job."""

    event: str = Field(description="Event of the job.")
    endpoint: str = Field(description="URL of the endpoint, without its query.")
    state: str = Field(description="`pending`, `delivered` or `failed`.")
    attempts: int = Field(description="Requests so far.")
    status: int | None = Field(description="HTTP status of the last one; null without a reply.")
    error: str | None = Field(description="Why the last one failed.")


class OperatorJob(Reply):
    """What an operator sees of a job of any account. Times are in Unix seconds."""

    job: str = Field(description="Id of the job, a UUID.")
    account: str = Field(description="Name of the account.")
    key: str = Field(description="Id of the key that started it; empty in a local service.")
    kind: JobKind = Field(description="What the job does.")
    state: JobStatus = Field(description="Its state.")
    subject: str = Field(description="Its query, or the URL where it begins.")
    replica: str = Field(description="Name of the process that runs it; empty while none does.")
    created: float = Field(description="When it was accepted.")
    waited: float = Field(description="Seconds in the queue before its first start.")
    ran: float | None = Field(description="Seconds since its first start; null before it.")
    attempt: int = Field(description="How often a process has taken it up.")
    attempts_without_progress: int = Field(description="How often, since it last stored something.")
    lease_left: float | None = Field(
        description="Seconds until another process takes it up unless the lease is renewed; null "
        "unless it runs."
    )
    rows: int = Field(description="Rows that are visible to clients.")
    total: int = Field(description="Rows that are expected.")
    credits: int | None = Field(description="What it has cost; null before its end.")
    reserved: int | None = Field(description="Credits that are held for it.")
    reason: str = Field(description="Why it failed; empty otherwise.")
    rows_expired: float | None = Field(description="When its rows passed their retention.")
    urls: dict[str, int] = Field(description="Number of URLs by outcome.")
    providers: list[dict[str, str]] = Field(
        description="Search providers in the order of the attempts: `provider` and `status`."
    )
    deliveries: list[OperatorDelivery] = Field(description="Its newest webhook deliveries.")
