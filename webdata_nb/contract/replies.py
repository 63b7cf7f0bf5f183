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
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from webdata_nb.contract.events import Cost
from webdata_nb.contract.states import JobKind, JobStatus


def _as_they_are(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Take rows as they were decoded: a copy of a thousand pages would help nobody."""
    if type(value) is list and all(type(row) is dict for row in value):
        return value
    return check(value)


Rows = Annotated[list[dict[str, Any]], WrapValidator(_as_they_are)]


class Reply(BaseModel):
    """A reply: fields this version does not know are kept in `model_extra`."""

    model_config = ConfigDict(extra="allow", frozen=True)


class StartReply(Reply):
    """Answer to a start; the job is durable once this is sent."""

    success: bool
    job_id: str
    status: str
    message: str = ""


class Attempt(Reply):
    """One entry of `fallback_chain`: a provider asked, in execution order.

    `detail` is ours: why the provider could not answer, in words.
    """

    provider: str
    status: str
    results_count: int = 0
    elapsed_ms: float = 0
    detail: str | None = None


class Receipt(Reply):
    """Every URL seen, by outcome: counts, and at most 20 examples an outcome.

    `contract.outcomes` says what each outcome means. `warning` is ours: why a completed crawl may
    not be what was wanted, such as a start page that answered 404; None where nothing hints at it.
    """

    counts: dict[str, int] = Field(default_factory=dict)
    examples: dict[str, list[str]] = Field(default_factory=dict)
    warning: str | None = None


class ReceiptEntry(Reply):
    """What became of one URL."""

    url: str
    outcome: str
    detail: str = ""


class ReceiptPage(Reply):
    """GET /v1/crawl/{job_id}/receipt (ours): entries in the order of their URLs.

    `total_results` counts the entries that the question is about: all, those of one outcome, or
    the one of a URL. `url` is the form under which that one was looked up.
    """

    success: bool = True
    job_id: str
    status: JobStatus
    total_results: int
    page: int = 1
    per_page: int = 0
    url: str | None = None
    data: list[ReceiptEntry] = Field(default_factory=list)


class PageFields(Reply):
    """What a scraped page carries, each only when its format was requested."""

    markdown: str | None = None
    html: str | None = None
    raw_html: str | None = None
    links: list[str] | None = None
    images: list[dict[str, Any]] | None = None
    headings: list[dict[str, Any]] | None = None
    structured_data: dict[str, Any] | None = None
    screenshot: str | None = None
    extract: Any = None
    metadata: dict[str, Any] | None = None


class SearchItem(PageFields):
    """One ranked result."""

    id: str
    url: str
    rank: int
    title: str = ""
    snippet: str = ""
    success: bool = True
    scraped: bool = False
    error: str | None = None


class CrawlPage(PageFields):
    """One crawled page; `time_taken` is seconds, `depth` link depth from the start page."""

    url: str | None = None
    title: str | None = None
    status: str | None = None
    status_code: int | None = None
    success: bool | None = None
    error: str | None = None
    depth: int | None = None
    time_taken: float | None = None
    quality: Any = None
    content_hash: str | None = None
    fetched_at: datetime | None = None


class SearchStatus(Reply, Cost):
    """GET /v1/search/{job_id}; `time_taken` is seconds.

    `providers_usable` and `providers_unusable` (with what each one lacks) are ours, and so is what
    it costs.
    """

    success: bool = True
    job_id: str
    status: JobStatus
    query: str = ""
    engine_requested: str | None = None
    engine_used: str | None = None
    provider_used: str | None = None
    fallback_used: bool | None = None
    fallback_chain: list[Attempt] = Field(default_factory=list)
    providers_usable: list[str] = Field(default_factory=list)
    providers_unusable: dict[str, str] = Field(default_factory=dict)
    total_results: int = 0
    completed_results: int = 0
    time_taken: float | None = None
    data: Rows = Field(default_factory=list)
    error: str | None = None
    result_expired: bool | None = None
    retention_hours: float | None = None
    expired_at: datetime | None = None


class SearchStart(StartReply):
    """Answer to the start of a search; `result`, asked for with `?wait=` (ours), once it ended."""

    result: SearchStatus | None = None


class CrawlStatus(Reply, Cost):
    """GET /v1/crawl/{job_id}; `receipt`, `error` and what it costs are ours."""

    success: bool = True
    job_id: str
    status: JobStatus
    total_pages: int = 0
    completed_pages: int = 0
    total_results: int = 0
    page: int = 1
    per_page: int = 0
    data: Rows = Field(default_factory=list)
    error: str | None = None
    time_taken: float | None = None
    receipt: Receipt | None = None


class StoredFile(Reply):
    """A downloaded file (ours): its bytes are under `CREATIVES_FILE`, by their hash."""

    url: str
    sha256: str | None = None
    mime: str | None = None
    bytes: int | None = None
    width: int | None = None
    height: int | None = None
    error: str | None = None


class Creative(Reply):
    """One advertising creative; all but the first four fields are ours, present where known.

    Those from `regions` on come with details, `assets` and `preview` with the downloads, `text`
    with OCR. A creative that could not be read, or not be enriched, says so in `error`.
    """

    position: int
    advertiser_id: str
    creative_id: str
    preview_url: str | None = None
    advertiser_name: str | None = None
    format: str | None = None
    first_shown: datetime | None = None
    last_shown: datetime | None = None
    days_shown: int | None = None
    political: bool | None = None
    error: str | None = None
    regions: list[str] | None = None
    impressions_min: int | None = None
    impressions_max: int | None = None
    landing_domain: str | None = None
    asset_urls: list[str] | None = None
    assets: list[StoredFile] | None = None
    preview: StoredFile | None = None
    text: str | None = None
    text_confidence: float | None = None
    headline: str | None = None
    description: str | None = None


class CreativesReply(Reply):
    """A page of creatives; `cursor` is there when another page exists.

    `provider` and `date_range` are ours: the source that answered, and the days it was asked for.
    """

    success: bool = True
    source: str = "partner_ads_transparency"
    operation: str = "creatives"
    advertiser_id: str
    region: str | None = None
    total_results: int = 0
    time_taken: float | None = None
    creatives: Rows = Field(default_factory=list)
    cursor: str | None = None
    provider: str | None = None
    date_range: str | None = None


class AdvertiserFound(Reply):
    """One advertiser that a name or domain may mean (ours); `rank` from 1, best first."""

    rank: int
    advertiser_id: str
    name: str = ""
    region: str | None = None
    domain: str | None = None
    ads_min: int | None = None
    ads_max: int | None = None


class AdvertisersReply(Reply):
    """GET .../advertisers (ours)."""

    success: bool = True
    query: str
    provider: str | None = None
    advertisers: list[AdvertiserFound] = Field(default_factory=list)


class CancelReply(Reply):
    """Both shapes of a cancel: a search adds `message`, a crawl `status`."""

    success: bool
    job_id: str
    message: str | None = None
    status: str | None = None


class RetryReply(Reply):
    """Both shapes of a retry: a search has `new_job_id`, a crawl `job_id`."""

    success: bool
    job_id: str | None = None
    new_job_id: str | None = None
    original_job_id: str | None = None
    message: str | None = None
    status: str | None = None
    type: str | None = None

    @property
    def started(self) -> str:
        """The id of the job that the retry made."""
        return self.new_job_id or self.job_id or ""


class ExportedResult(Reply):
    """One entry of a search's JSON export."""

    url: str
    title: str = ""
    snippet: str = ""
    success: bool = True


class SearchExport(Reply):
    """A search's JSON export."""

    query: str
    results: list[ExportedResult]


class Weight(Reply):
    """Credits that one operation costs."""

    platform: str
    operation: str
    weight: float


class UsedCredits(Reply):
    """What was charged for one operation in the present billing period."""

    platform: str
    operation: str
    units: int
    credits: float


class UsageReply(Reply):
    """GET /v1/usage (ours): credits and active work of the caller's account.

    `monthly` is what each billing period grants, `monthly_left` and `topup` what can still be
    reserved, `reserved` what jobs under way hold, `used` what was charged since `period_start`.
    `monthly`, `monthly_left` and `limit` are null where there is no limit.
    """

    success: bool = True
    plan: str
    monthly: float | None = None
    monthly_left: float | None = None
    topup: float = 0
    reserved: float = 0
    used: float = 0
    period_start: datetime
    period_end: datetime
    active: int = 0
    limit: int | None = None
    operations: list[UsedCredits] = Field(default_factory=list)


class EngineEntry(Reply):
    """One provider in an engine's list (ours): `position` from 1, `why` it cannot be asked now.

    `resting_s` is for how many seconds more it is left alone after a failure.
    """

    engine: str
    position: int
    provider: str
    usable: bool
    why: str | None = None
    resting_s: float = 0.0


class EngineList(Reply):
    """GET /v1/engines (ours): whom each engine asks, in order. It holds no address and no key."""

    success: bool = True
    engines: list[EngineEntry]


class JobSummary(Reply):
    """One of the caller's jobs (ours). `completed` and `total` count rows."""

    job_id: str
    type: JobKind
    status: JobStatus
    subject: str = ""
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    total: int = 0
    completed: int = 0
    error: str | None = None


class JobList(Reply):
    """GET /v1/jobs (ours): newest first; `cursor` is there when older ones exist."""

    success: bool = True
    jobs: list[JobSummary]
    cursor: str | None = None


class FieldProblem(Reply):
    """One wrong field of a 422; never echoes the value."""

    loc: list[str | int]
    msg: str
    type: str


class Problem(Reply):
    """Every error body: a sentence, or for 422 a list of fields."""

    detail: str | list[FieldProblem]


class Refusal(Reply):
    """Every error body but that of a 422: one sentence, without anything secret."""

    detail: str


class LimitReached(Refusal):
    """The body of a 429: which limit was reached, as a sentence and as one word."""

    code: Literal["concurrency", "quota", "rate"] = Field(
        description="`concurrency`: as many active jobs and calls as the plan allows, so one may "
        "start when another ends. `quota`: not enough credits. `rate`: too many requests or "
        "connections at once."
    )


class InvalidRequest(Reply):
    """The body of a 422: what is wrong with which field."""

    detail: list[FieldProblem]


class DeliveryShown(Reply):
    """One webhook delivery (ours); `endpoint` is the host alone, `payload` what was signed."""

    delivery_id: str
    event_id: str
    job_id: str
    event: str
    endpoint: str
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    replay: bool
    status_code: int | None = None
    error: str | None = None
    created_at: datetime
    next_attempt_at: datetime | None = None
    ended_at: datetime | None = None
    payload: dict[str, Any]


class DeliveryList(Reply):
    """GET /v1/webhooks/deliveries (ours): newest first; `cursor` where older ones exist."""

    success: bool = True
    deliveries: list[DeliveryShown]
    cursor: str | None = None


class ReplayReply(Reply):
    """POST /v1/webhooks/deliveries/{delivery_id}/replay (ours)."""

    success: bool = True
    delivery: DeliveryShown


class WebhookStats(Reply):
    """GET /v1/webhooks/stats (ours): deliveries of the caller's jobs by state and by event."""

    success: bool = True
    total: int
    pending: int
    delivered: int
    failed: int
    attempts: int
    by_event: dict[str, int] = Field(default_factory=dict)


class WebhookTested(Reply):
    """POST /v1/webhooks/test (ours): `success` tells whether the endpoint acknowledged."""

    success: bool
    event: str
    status_code: int | None = None
    error: str | None = None
    elapsed_ms: float


class Health(Reply):
    """GET /healthz and /readyz (ours): a word, and where the service is not ready, why."""

    status: Literal["ok", "unavailable"]
    reason: str | None = None
