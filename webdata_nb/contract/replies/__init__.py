"""Models of the service's replies (contract, part 2), which keep unknown fields.

Models of rows document and check one row. Status replies leave `data` as plain objects, because
the toolkit reads rows into columns and not into models.
"""

from webdata_nb.contract.replies.base import Reply, Rows, SuccessReply
from webdata_nb.contract.replies.captures import (
    CaptureEntry,
    CapturesReply,
    IndexOutcome,
    IndexRead,
)
from webdata_nb.contract.replies.crawl import (
    CrawlPage,
    CrawlStatus,
    Receipt,
    ReceiptEntry,
    ReceiptPage,
    Revalidation,
)
from webdata_nb.contract.replies.creatives import (
    AdvertiserMatch,
    AdvertisersReply,
    Creative,
    CreativesReply,
    StoredFile,
)
from webdata_nb.contract.replies.errors import (
    ErrorBody,
    FieldProblem,
    LimitReached,
    Refusal,
    SourceFailure,
    ValidationErrorReply,
)
from webdata_nb.contract.replies.jobs import (
    CancelReply,
    JobList,
    JobSummary,
    RetryReply,
    StartReply,
)
from webdata_nb.contract.replies.page_facts import (
    PageAlternate,
    PageAudit,
    PageFacts,
    PageFactsPage,
    PageLink,
    PageRedirect,
)
from webdata_nb.contract.replies.pages import PageFields
from webdata_nb.contract.replies.search import (
    Attempt,
    ExportedResult,
    SearchExport,
    SearchItem,
    SearchStart,
    SearchStatus,
)
from webdata_nb.contract.replies.service import (
    EngineEntry,
    EngineList,
    Health,
    SiteReply,
    UsageReply,
    UsedCredits,
    Weight,
)
from webdata_nb.contract.replies.verification import (
    PageVerdict,
    ValueVerdict,
    VerifiedPage,
    VerifiedValue,
    VerifyReply,
)
from webdata_nb.contract.replies.webhooks import (
    DeliveryList,
    ReplayReply,
    WebhookDelivery,
    WebhookStats,
    WebhookTestReply,
)

__all__ = [
    "AdvertiserMatch",
    "AdvertisersReply",
    "Attempt",
    "CancelReply",
    "CaptureEntry",
    "CapturesReply",
    "CrawlPage",
    "CrawlStatus",
    "Creative",
    "CreativesReply",
    "DeliveryList",
    "EngineEntry",
    "EngineList",
    "ErrorBody",
    "ExportedResult",
    "FieldProblem",
    "Health",
    "IndexOutcome",
    "IndexRead",
    "JobList",
    "JobSummary",
    "LimitReached",
    "PageAlternate",
    "PageAudit",
    "PageFacts",
    "PageFactsPage",
    "PageFields",
    "PageLink",
    "PageRedirect",
    "PageVerdict",
    "Receipt",
    "ReceiptEntry",
    "ReceiptPage",
    "Refusal",
    "ReplayReply",
    "Reply",
    "RetryReply",
    "Revalidation",
    "Rows",
    "SearchExport",
    "SearchItem",
    "SearchStart",
    "SearchStatus",
    "SiteReply",
    "SourceFailure",
    "StartReply",
    "StoredFile",
    "SuccessReply",
    "UsageReply",
    "UsedCredits",
    "ValidationErrorReply",
    "ValueVerdict",
    "VerifiedPage",
    "VerifiedValue",
    "VerifyReply",
    "WebhookDelivery",
    "WebhookStats",
    "WebhookTestReply",
    "Weight",
]
