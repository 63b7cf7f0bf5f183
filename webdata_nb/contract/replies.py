"""What a service answers (contract, part 2). Unknown fields are kept: lenient in.

Row models document and check one row; the status envelopes leave `data` as plain objects, since
a thousand rows of page text are columns for a table, not models.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from webdata_nb.contract.events import Cost
from webdata_nb.contract.states import JobKind, JobStatus


def _as_they_are(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Take rows as they were decoded: a copy of a thousand pages would help nobody."""
    if type(value) is list and all(type(row) is dict for row in value):
        return value
    return check(value)


class _RowsOf:
    """Says in a schema what each row of a list is, where rows are taken as they are."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "array", "items": handler(self._model.__pydantic_core_schema__)}


Rows = Annotated[list[dict[str, Any]], WrapValidator(_as_they_are)]


class Reply(BaseModel):
    """A reply: fields this version does not know are kept in `model_extra`."""

    model_config = ConfigDict(extra="allow", frozen=True)


class StartReply(Reply):
    """Answer to a start; the job is durable once this is sent."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    status: str = Field(description="Always `started`; the job itself is `pending`.")
    message: str = Field(default="", description="A sentence for people.")


class Attempt(Reply):
    """One entry of `fallback_chain`: a provider asked, in execution order.

    `detail` is ours: why the provider could not answer, in words.
    """

    provider: str = Field(description="Name of the provider.")
    status: str = Field(
        description="What came of it: `ok`, `empty`, or why it could not answer: "
        "`rate_limited`, `blocked`, `auth`, `timeout` or `error`."
    )
    results_count: int = Field(default=0, description="Results that it gave.")
    elapsed_ms: float = Field(default=0, description="Milliseconds that it took.")
    detail: str | None = Field(
        default=None, description="Why it could not answer, in words (ours)."
    )


class Receipt(Reply):
    """Every URL seen, by outcome: counts, and at most 20 examples an outcome.

    `contract.outcomes` says what each outcome means. `warning` is ours: why a completed crawl may
    not be what was wanted, such as a start page that answered 404; None where nothing hints at it.
    """

    counts: dict[str, int] = Field(default_factory=dict, description="URLs by outcome.")
    examples: dict[str, list[str]] = Field(
        default_factory=dict, description="Some URLs of each outcome, at most 20."
    )
    warning: str | None = Field(
        default=None,
        description="Why a completed crawl may not be what was wanted (ours); null if nothing "
        "hints at it.",
    )


class ReceiptEntry(Reply):
    """What became of one URL."""

    url: str = Field(description="The URL, in the form in which the crawl wrote it.")
    outcome: str = Field(
        description="What became of it, such as `fetched`, `robots` or `failed:http_404`."
    )
    detail: str = Field(
        default="",
        description="More about the outcome, such as the page of which it is a duplicate; may "
        "be empty.",
    )


class ReceiptPage(Reply):
    """GET /v1/crawl/{job_id}/receipt (ours): entries in the order of their URLs.

    `total_results` counts the entries that the question is about: all, those of one outcome, or
    the one of a URL. `url` is the form under which that one was looked up.
    """

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    total_results: int = Field(
        description="Entries that the question is about: all, those of one outcome, or one URL's."
    )
    page: int = Field(default=1, description="Which page of the entries, from 1.")
    per_page: int = Field(default=0, description="Entries a page that were asked for.")
    url: str | None = Field(
        default=None,
        description="The form under which a URL was looked up, where one was asked for.",
    )
    data: list[ReceiptEntry] = Field(
        default_factory=list, description="The entries, in the order of their URLs."
    )


class PageFields(Reply):
    """What a scraped page carries, each only when its format was requested."""

    markdown: str | None = Field(default=None, description="The page as Markdown.")
    html: str | None = Field(default=None, description="The page's cleaned HTML.")
    raw_html: str | None = Field(default=None, description="The page's HTML as it arrived.")
    links: list[str] | None = Field(
        default=None, description="URLs that the page links to, absolute."
    )
    images: list[dict[str, Any]] | None = Field(
        default=None, description="The page's pictures: `url`, `alt`, `width`, `height`, `caption`."
    )
    headings: list[dict[str, Any]] | None = Field(
        default=None, description="The page's headings: `level`, `text`, `anchor`."
    )
    structured_data: dict[str, Any] | None = Field(
        default=None,
        description="`json_ld`, `microdata`, `opengraph`, `rdfa` and `meta` of the page.",
    )
    screenshot: str | None = Field(default=None, description="A PNG of the page, in Base64.")
    extract: Any = Field(
        default=None, description="What was extracted, as the request's `extract` asked for."
    )
    metadata: dict[str, Any] | None = Field(
        default=None, description="Title, description, language and further data about the page."
    )


class SearchItem(PageFields):
    """One ranked result."""

    id: str = Field(description="Id of the result within the job.")
    url: str = Field(description="Address of the result.")
    rank: int = Field(description="Rank of the result, from 1.")
    title: str = Field(default="", description="Title of the result.")
    snippet: str = Field(default="", description="Text that the provider shows of the result.")
    success: bool = Field(
        default=True,
        description="Whether nothing failed: true for a result that was not to be scraped.",
    )
    scraped: bool = Field(default=False, description="Whether the page was loaded.")
    error: str | None = Field(
        default=None, description="Why the page could not be scraped; null if it could."
    )


class CrawlPage(PageFields):
    """One crawled page; `time_taken` is seconds, `depth` link depth from the start page."""

    url: str | None = Field(default=None, description="Address of the page, after redirects.")
    title: str | None = Field(default=None, description="Title of the page.")
    status: str | None = Field(default=None, description="`completed` or `failed`.")
    status_code: int | None = Field(
        default=None, description="HTTP status of the page; null where there was no answer."
    )
    success: bool | None = Field(default=None, description="Whether the page was scraped.")
    error: str | None = Field(default=None, description="Why it was not; null if it was.")
    depth: int | None = Field(default=None, description="Links from the start page, which has 0.")
    time_taken: float | None = Field(default=None, description="Seconds that the page took.")
    quality: Any = Field(
        default=None,
        description="How much of the page is content, such as `word_count`, `score` (0 to 1).",
    )
    content_hash: str | None = Field(
        default=None, description="Hash of the page's content: the same for the same content."
    )
    fetched_at: datetime | None = Field(default=None, description="When the page arrived (UTC).")


class SearchStatus(Reply, Cost):
    """GET /v1/search/{job_id}; `time_taken` is seconds.

    `providers_usable` and `providers_unusable` (with what each one lacks) are ours, and so is what
    it costs.
    """

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    query: str = Field(default="", description="What was searched for.")
    engine_requested: str | None = Field(default=None, description="Engine that the request named.")
    engine_used: str | None = Field(
        default=None, description="Engine whose provider answered; null until one has."
    )
    provider_used: str | None = Field(
        default=None, description="Provider that answered; null until one has."
    )
    fallback_used: bool | None = Field(
        default=None, description="Whether another provider than the first one answered."
    )
    fallback_chain: list[Attempt] = Field(
        default_factory=list, description="The providers that were asked, in order."
    )
    providers_usable: list[str] = Field(
        default_factory=list, description="Providers of the engine that could be asked (ours)."
    )
    providers_unusable: dict[str, str] = Field(
        default_factory=dict,
        description="Providers of the engine that could not, with what each lacks (ours).",
    )
    total_results: int = Field(default=0, description="Results of the job so far.")
    completed_results: int = Field(
        default=0, description="Results that are final: scraped, failed, or not to be scraped."
    )
    time_taken: float | None = Field(
        default=None, description="Processing time so far, in seconds; null before the job runs."
    )
    data: Annotated[Rows, _RowsOf(SearchItem)] = Field(
        default_factory=list, description="The results, by rank."
    )
    error: str | None = Field(default=None, description="Why the job failed; null if it did not.")
    result_expired: bool | None = Field(
        default=None, description="True once the rows are past their retention; absent before."
    )
    retention_hours: float | None = Field(
        default=None, description="Hours for which the rows were kept, where they have expired."
    )
    expired_at: datetime | None = Field(
        default=None, description="When the rows expired (UTC), where they have."
    )


class SearchStart(StartReply):
    """Answer to the start of a search; `result`, asked for with `?wait=` (ours), once it ended."""

    result: SearchStatus | None = Field(
        default=None,
        description="The search as a status reply tells it, where `wait` was given and it ended "
        "in time; absent otherwise (ours).",
    )


class CrawlStatus(Reply, Cost):
    """GET /v1/crawl/{job_id}; `receipt`, `error` and what it costs are ours."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    total_pages: int = Field(
        default=0,
        description="Pages that the crawl has or, while it runs, will have as far as it can tell.",
    )
    completed_pages: int = Field(default=0, description="Pages that are rows.")
    total_results: int = Field(default=0, description="Rows of the job so far.")
    page: int = Field(default=1, description="Which page of the rows, from 1.")
    per_page: int = Field(default=0, description="Rows a page that were asked for.")
    data: Annotated[Rows, _RowsOf(CrawlPage)] = Field(
        default_factory=list, description="The rows of this page, in the order of the crawl."
    )
    error: str | None = Field(
        default=None, description="Why the job failed; null if it did not (ours)."
    )
    time_taken: float | None = Field(
        default=None, description="Processing time so far, in seconds; null before the job runs."
    )
    receipt: Receipt | None = Field(
        default=None, description="What became of every URL that the crawl saw (ours)."
    )


class StoredFile(Reply):
    """A downloaded file (ours): its bytes are under `CREATIVES_FILE`, by their hash."""

    url: str = Field(description="Where the file was loaded from.")
    sha256: str | None = Field(
        default=None,
        description="SHA-256 of its bytes in hexadecimal, under which it is stored; null where "
        "it was not.",
    )
    mime: str | None = Field(default=None, description="Media type of the file.")
    bytes: int | None = Field(default=None, description="Size of the file, in bytes.")
    width: int | None = Field(default=None, description="Width of the picture, in pixels.")
    height: int | None = Field(default=None, description="Height of the picture, in pixels.")
    error: str | None = Field(default=None, description="Why it was not stored; null if it was.")


class Creative(Reply):
    """One advertising creative; all but the first four fields are ours, present where known.

    Those from `regions` on come with details, `assets` and `preview` with the downloads, `text`
    with OCR. A creative that could not be read, or not be enriched, says so in `error`.
    """

    position: int = Field(description="Position in the advertiser's list, from 1.")
    advertiser_id: str = Field(description="The advertiser's id at the source.")
    creative_id: str = Field(description="The creative's id at the source.")
    preview_url: str | None = Field(default=None, description="Address of the source's preview.")
    advertiser_name: str | None = Field(default=None, description="Name of the advertiser.")
    format: str | None = Field(default=None, description="`text`, `image` or `video`.")
    first_shown: datetime | None = Field(default=None, description="When it was first shown (UTC).")
    last_shown: datetime | None = Field(default=None, description="When it was last shown (UTC).")
    days_shown: int | None = Field(default=None, description="Days on which it was shown.")
    political: bool | None = Field(
        default=None, description="Whether the source calls it political."
    )
    error: str | None = Field(
        default=None, description="What could not be read or added; null if nothing."
    )
    regions: list[str] | None = Field(default=None, description="Where it was shown.")
    impressions_min: int | None = Field(default=None, description="Impressions at least.")
    impressions_max: int | None = Field(default=None, description="Impressions at most.")
    landing_domain: str | None = Field(default=None, description="Domain that it leads to.")
    asset_urls: list[str] | None = Field(
        default=None, description="Addresses of its pictures and videos."
    )
    assets: list[StoredFile] | None = Field(
        default=None, description="Its stored pictures and videos."
    )
    preview: StoredFile | None = Field(
        default=None, description="The stored picture of the creative."
    )
    text: str | None = Field(default=None, description="Text read from its pictures.")
    text_confidence: float | None = Field(
        default=None, description="How sure the reading is, from 0 to 1."
    )
    headline: str | None = Field(default=None, description="Headline of the ad.")
    description: str | None = Field(default=None, description="Text of the ad.")


class CreativesReply(Reply):
    """A page of creatives; `cursor` is there when another page exists.

    `provider` and `date_range` are ours: the source that answered, and the days it was asked for.
    """

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    source: str = Field(
        default="partner_ads_transparency", description="Always `partner_ads_transparency`."
    )
    operation: str = Field(default="creatives", description="Always `creatives`.")
    advertiser_id: str = Field(description="The advertiser's id at the source.")
    region: str | None = Field(default=None, description="Region that was asked for.")
    total_results: int = Field(default=0, description="Creatives of this page.")
    time_taken: float | None = Field(default=None, description="Seconds that the call took.")
    creatives: Annotated[Rows, _RowsOf(Creative)] = Field(
        default_factory=list, description="The creatives, in the source's order."
    )
    cursor: str | None = Field(
        default=None, description="Where the next page begins; absent on the last page."
    )
    provider: str | None = Field(default=None, description="Source that answered (ours).")
    date_range: str | None = Field(
        default=None,
        description="Days that the source was asked for, as `YYYY-MM-DD..YYYY-MM-DD` (ours).",
    )


class AdvertiserFound(Reply):
    """One advertiser that a name or domain may mean (ours); `rank` from 1, best first."""

    rank: int = Field(description="Rank of the match, from 1.")
    advertiser_id: str = Field(description="The advertiser's id at the source.")
    name: str = Field(default="", description="Name of the advertiser.")
    region: str | None = Field(
        default=None, description="Country of the advertiser, as a two-letter code."
    )
    domain: str | None = Field(default=None, description="Domain of the advertiser.")
    ads_min: int | None = Field(default=None, description="Ads of the advertiser at least.")
    ads_max: int | None = Field(default=None, description="Ads of the advertiser at most.")


class AdvertisersReply(Reply):
    """GET .../advertisers (ours)."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    query: str = Field(description="What was asked for.")
    provider: str | None = Field(default=None, description="Source that answered.")
    advertisers: list[AdvertiserFound] = Field(
        default_factory=list, description="The advertisers, best match first."
    )


class CancelReply(Reply):
    """Both shapes of a cancel: a search adds `message`, a crawl `status`."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    message: str | None = Field(
        default=None, description="A sentence for people; of searches alone."
    )
    status: str | None = Field(default=None, description="Always `cancelled`; of crawls alone.")


class RetryReply(Reply):
    """Both shapes of a retry: a search has `new_job_id`, a crawl `job_id`."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str | None = Field(
        default=None, description="Id of the new job, a UUID; of crawls alone."
    )
    new_job_id: str | None = Field(
        default=None, description="Id of the new job, a UUID; of searches alone."
    )
    original_job_id: str | None = Field(default=None, description="Id of the job that was retried.")
    message: str | None = Field(
        default=None, description="A sentence for people; of searches alone."
    )
    status: str | None = Field(default=None, description="Always `pending`; of crawls alone.")
    type: str | None = Field(default=None, description="Always `search`; of searches alone.")

    @property
    def started(self) -> str:
        """The id of the job that the retry made."""
        return self.new_job_id or self.job_id or ""


class ExportedResult(Reply):
    """One entry of a search's JSON export."""

    url: str = Field(description="Address of the result.")
    title: str = Field(default="", description="Title of the result.")
    snippet: str = Field(default="", description="Text that the provider shows of the result.")
    success: bool = Field(default=True, description="Whether nothing failed.")


class SearchExport(Reply):
    """A search's JSON export."""

    query: str = Field(description="What was searched for.")
    results: list[ExportedResult] = Field(description="The results, by rank.")
    partial: bool = Field(
        default=False, description="Whether these are the results so far, or of a job that failed."
    )
    status: JobStatus | None = Field(
        default=None, description="The job's status, where the export is partial."
    )


class Weight(Reply):
    """Credits that one operation costs."""

    platform: str = Field(description="What the operation belongs to.")
    operation: str = Field(description="Name of the operation.")
    weight: float = Field(description="Credits that one unit costs.")


class UsedCredits(Reply):
    """What was charged for one operation in the present billing period."""

    platform: str = Field(description="What the operation belongs to.")
    operation: str = Field(description="Name of the operation.")
    units: int = Field(description="Units charged since the period began, such as pages.")
    credits: float = Field(description="Credits charged for them.")


class UsageReply(Reply):
    """GET /v1/usage (ours): credits and active work of the caller's account.

    `monthly` is what each billing period grants, `monthly_left` and `topup` what can still be
    reserved, `reserved` what jobs under way hold, `used` what was charged since `period_start`.
    `monthly`, `monthly_left` and `limit` are null where there is no limit.
    """

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
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
        description="Bought credits that can still be reserved; they do not end with the period.",
    )
    reserved: float = Field(default=0, description="Credits that jobs and calls under way hold.")
    used: float = Field(default=0, description="Credits charged since `period_start`.")
    period_start: datetime = Field(description="When the billing period began (UTC).")
    period_end: datetime = Field(description="When it ends (UTC).")
    active: int = Field(default=0, description="Jobs and calls under way.")
    limit: int | None = Field(
        default=None,
        description="Jobs and calls that may be under way at once; null without a limit.",
    )
    operations: list[UsedCredits] = Field(
        default_factory=list, description="What was charged in the period, by operation."
    )


class EngineEntry(Reply):
    """One provider in an engine's list (ours): `position` from 1, `why` it cannot be asked now.

    `resting_s` is for how many seconds more it is left alone after a failure.
    """

    engine: str = Field(description="Name of the engine.")
    position: int = Field(description="When the provider is asked, from 1.")
    provider: str = Field(description="Name of the provider.")
    usable: bool = Field(description="Whether it can be asked now.")
    why: str | None = Field(default=None, description="Why it cannot be asked now; null if it can.")
    resting_s: float = Field(
        default=0.0, description="Seconds for which it is left alone after a failure."
    )


class EngineList(Reply):
    """GET /v1/engines (ours): whom each engine asks, in order. It holds no address and no key."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    engines: list[EngineEntry] = Field(
        description="The providers of each engine, in the order in which they are asked."
    )


class JobSummary(Reply):
    """One of the caller's jobs (ours). `completed` and `total` count rows."""

    job_id: str = Field(description="Id of the job, a UUID.")
    type: JobKind = Field(description="Whether it is a search or a crawl.")
    status: JobStatus = Field(description="State of the job.")
    subject: str = Field(default="", description="Query of a search, or start URL of a crawl.")
    created_at: datetime = Field(description="When it was started (UTC).")
    started_at: datetime | None = Field(
        default=None, description="When it began to run (UTC); null before."
    )
    finished_at: datetime | None = Field(
        default=None, description="When it ended (UTC); null before."
    )
    total: int = Field(
        default=0,
        description="Rows that it has or, while it runs, will have as far as it can tell.",
    )
    completed: int = Field(default=0, description="Rows that it has.")
    error: str | None = Field(default=None, description="Why it failed; null if it did not.")


class JobList(Reply):
    """GET /v1/jobs (ours): newest first; `cursor` is there when older ones exist."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    jobs: list[JobSummary] = Field(description="The jobs, newest first.")
    cursor: str | None = Field(
        default=None, description="Where the next page begins; absent on the last page."
    )


class FieldProblem(Reply):
    """One wrong field of a 422; never echoes the value."""

    loc: list[str | int] = Field(
        description="Path to the field: `body`, `query` or `header` first."
    )
    msg: str = Field(description="What is wrong with it, without its value.")
    type: str = Field(description="Kind of problem, for programs.")


class Problem(Reply):
    """Every error body: a sentence, or for 422 a list of fields."""

    detail: str | list[FieldProblem] = Field(description="A sentence, or for 422 a list of fields.")


class Refusal(Reply):
    """Every error body but that of a 422: one sentence, without anything secret."""

    detail: str = Field(description="What is wrong, in a sentence without anything secret.")


class LimitReached(Refusal):
    """The body of a 429: which limit was reached, as a sentence and as one word."""

    code: Literal["concurrency", "quota", "rate"] = Field(
        description="`concurrency`: as many active jobs and calls as the plan allows, so one may "
        "start when another ends. `quota`: not enough credits. `rate`: too many requests or "
        "connections at once."
    )


class ValidationErrorReply(Reply):
    """The body of a 422: what is wrong with which field."""

    detail: list[FieldProblem] = Field(description="What is wrong with which field.")


class DeliveryShown(Reply):
    """One webhook delivery (ours); `endpoint` is the host alone, `payload` what was signed."""

    delivery_id: str = Field(description="Id of the delivery, a UUID.")
    event_id: str = Field(
        description="Id of the event: the same in every attempt and replay, and in the header "
        "`X-Webhook-Id`."
    )
    job_id: str = Field(description="Id of the job that it tells of.")
    event: str = Field(description="Name of the event.")
    endpoint: str = Field(description="Host that it goes to; the rest of the address is not shown.")
    status: Literal["pending", "delivered", "failed"] = Field(
        description="Whether it is still to be sent, was acknowledged, or was given up."
    )
    attempts: int = Field(description="Attempts so far.")
    replay: bool = Field(description="Whether a replay made it.")
    status_code: int | None = Field(
        default=None, description="HTTP status of the last attempt; null where there was no answer."
    )
    error: str | None = Field(
        default=None, description="Why the last attempt failed; null if it did not."
    )
    created_at: datetime = Field(description="When the event happened (UTC).")
    next_attempt_at: datetime | None = Field(
        default=None, description="When it is attempted next (UTC); null once it has ended."
    )
    ended_at: datetime | None = Field(
        default=None, description="When it was acknowledged or given up (UTC); null before."
    )
    payload: dict[str, Any] = Field(description="The body that is sent and signed.")


class DeliveryList(Reply):
    """GET /v1/webhooks/deliveries (ours): newest first; `cursor` where older ones exist."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    deliveries: list[DeliveryShown] = Field(description="The deliveries, newest first.")
    cursor: str | None = Field(
        default=None, description="Where the next page begins; absent on the last page."
    )


class ReplayReply(Reply):
    """POST /v1/webhooks/deliveries/{delivery_id}/replay (ours)."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    delivery: DeliveryShown = Field(description="The new delivery.")


class WebhookStats(Reply):
    """GET /v1/webhooks/stats (ours): deliveries of the caller's jobs by state and by event."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
    total: int = Field(description="Deliveries of the account's jobs.")
    pending: int = Field(description="Deliveries still to be sent.")
    delivered: int = Field(description="Deliveries that were acknowledged.")
    failed: int = Field(description="Deliveries that were given up.")
    attempts: int = Field(description="Attempts at all of them.")
    by_event: dict[str, int] = Field(
        default_factory=dict, description="Deliveries by the name of their event."
    )


class WebhookTested(Reply):
    """POST /v1/webhooks/test (ours): `success` tells whether the endpoint acknowledged."""

    success: bool = Field(description="Whether the endpoint acknowledged the delivery.")
    event: str = Field(description="Name of the event that was sent.")
    status_code: int | None = Field(
        default=None, description="HTTP status that the endpoint answered; null where it did not."
    )
    error: str | None = Field(
        default=None, description="Why it was not acknowledged; null if it was."
    )
    elapsed_ms: float = Field(description="Milliseconds until the answer.")


class Health(Reply):
    """GET /healthz and /readyz (ours): a word, and where the service is not ready, why."""

    status: Literal["ok", "unavailable"] = Field(
        description="`ok`, or `unavailable` with status 503."
    )
    reason: str | None = Field(
        default=None, description="Why the service is not ready; null if it is."
    )
