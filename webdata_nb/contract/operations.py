"""Every operation of the service: what it takes, and all that it may answer.

The OpenAPI document is made of this table and of the models; tests hold both against the routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from webdata_nb.contract import limits, paths, replies, requests
from webdata_nb.contract.examples import EXAMPLES

JSON: Final = "application/json"
# What any request may meet before its operation is reached.
_ALWAYS: Final = (400, 401, 408, 500, 503)
_WITH_BODY: Final = (413, 415, 422)
REFUSALS: Final[Mapping[int, str]] = {
    400: "Not a valid HTTP request, or the job's present state does not allow it",
    401: "Missing or invalid bearer credential",
    404: "Unknown, or another account's: one and the same answer; or nothing to export",
    408: "Headers or body took longer than 10 seconds",
    409: "The same Idempotency-Key with another body, or secrets that no key opens",
    410: "Past retention: start a new job",
    413: "The body is larger than 1 MiB",
    415: "The body is not JSON by its Content-Type",
    422: "A field is not allowed; values are never repeated",
    429: "Quota or concurrency limit reached",
    500: "The service made an error",
    501: "Needs a setting that this service does not have",
    502: "The source blocks this service, or answers nothing usable",
    503: "Too many connections, or the source asks to wait",
    504: "The source did not answer in time",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter outside the body."""

    name: str
    where: str
    schema: Mapping[str, Any]
    text: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    `answers` holds what success looks like by media type: a model, None for bytes or text, or a
    list of a model. `links` says which field of the answer is which parameter of other operations.
    """

    id: str
    method: str
    path: str
    text: str
    answers: Mapping[str, type[BaseModel] | list[type[BaseModel]] | None]
    body: type[BaseModel] | None = None
    parameters: tuple[Parameter, ...] = ()
    refusals: tuple[int, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    open: bool = False
    unready: bool = False

    @property
    def statuses(self) -> tuple[int, ...]:
        """Every status but success that it may answer, in order."""
        if self.open:
            return (503,) if self.unready else ()
        body = _WITH_BODY if self.method == "post" else ()
        return tuple(sorted({*_ALWAYS, *body, *self.refusals}))

    @property
    def examples(self) -> Mapping[str, Any]:
        """Named examples of the body."""
        return EXAMPLES.get(self.id, {})


def _number(name: str, bounds: tuple[int, int], default: int, text: str) -> Parameter:
    low, high = bounds
    schema = {"type": "integer", "minimum": low, "maximum": high, "default": default}
    return Parameter(name, "query", schema, text)


_ID: Final = {"type": "string", "format": "uuid"}
_ANY: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean", "default": True}
_JOB: Final = Parameter("job_id", "path", _ID, "The job, as its start named it.", required=True)
_DATA: Final = Parameter("include_data", "query", _FLAG, "false leaves the rows out.")
_PAGE: Final = _number("page", (1, 10**9), 1, "From 1.")
_KEY: Final = Parameter(
    paths.IDEMPOTENCY_KEY,
    "header",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.IDEMPOTENCY_KEY_LENGTH,
        "pattern": f"^{limits.IDEMPOTENCY_KEY_FORM}$",
    },
    "For 24 hours the same key with the same body is answered with the first start.",
)
_FORMAT: Final = Parameter(
    "format", "query", {"type": "string", "enum": ["json", "csv", "zip"]}, required=True
)
_LAST: Final = Parameter(
    "Last-Event-ID",
    "header",
    {"type": "string", "pattern": "^[0-9]+$"},
    "The number of the last row that was seen: the stream goes on behind it.",
)
_CURSOR: Final = Parameter("cursor", "query", _ANY, "From the page before.")
_LISTED: Final = _number("limit", limits.JOBS_LISTED, limits.JOBS_LISTED_DEFAULT, "Newest first.")
_JOB_LINKS: Final = {"cancelJob": "job_id", "retryJob": "job_id"}
_SEARCH_LINKS: Final = {
    "getSearch": "job_id",
    "watchSearch": "job_id",
    "exportSearch": "job_id",
    **_JOB_LINKS,
}
_CRAWL_LINKS: Final = {
    "getCrawl": "job_id",
    "watchCrawl": "job_id",
    "exportCrawl": "job_id",
    "getCrawlReceipt": "job_id",
    **_JOB_LINKS,
}
_START_REFUSALS: Final = (409, 429)
_SOURCE_REFUSALS: Final = (422, 429, 501, 502, 504)
_EVENTS: Final = "text/event-stream"

OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        "startSearch",
        "post",
        paths.SEARCH,
        "Start a search",
        {JSON: replies.SearchStart},
        requests.SearchRequest,
        (
            _KEY,
            _number(
                "wait",
                (0, limits.STATUS_WAIT_S),
                0,
                "Seconds to wait for the end; a search that came to it is the reply's `result`"
                " (ours).",
            ),
            _DATA,
        ),
        _START_REFUSALS,
        _SEARCH_LINKS,
    ),
    Operation(
        "getSearch",
        "get",
        paths.SEARCH_JOB,
        "Read a search with the results so far",
        {JSON: replies.SearchStatus},
        parameters=(
            _JOB,
            _DATA,
            _number("wait", (0, limits.STATUS_WAIT_S), 0, "Seconds to wait for the end (ours)."),
        ),
        refusals=(404, 422),
    ),
    Operation(
        "watchSearch",
        "get",
        paths.SEARCH_EVENTS,
        "Watch a search as server-sent events: progress, page, done",
        {_EVENTS: None},
        parameters=(_JOB, _LAST),
        refusals=(404, 422),
    ),
    Operation(
        "exportSearch",
        "get",
        paths.SEARCH_EXPORT,
        "Download a search",
        {JSON: replies.SearchExport, "text/csv": None, "application/zip": None},
        parameters=(_JOB, _FORMAT),
        refusals=(404, 410, 422),
    ),
    Operation(
        "startCrawl",
        "post",
        paths.CRAWL,
        "Start a crawl",
        {JSON: replies.StartReply},
        requests.CrawlRequest,
        (_KEY,),
        _START_REFUSALS,
        _CRAWL_LINKS,
    ),
    Operation(
        "getCrawl",
        "get",
        paths.CRAWL_JOB,
        "Read a crawl with a page of its rows",
        {JSON: replies.CrawlStatus},
        parameters=(
            _JOB,
            _PAGE,
            _number("per_page", limits.PER_PAGE, limits.PER_PAGE_DEFAULT, "Rows a page."),
            _DATA,
        ),
        refusals=(404, 422),
    ),
    Operation(
        "watchCrawl",
        "get",
        paths.CRAWL_EVENTS,
        "Watch a crawl as server-sent events: progress, page, done",
        {_EVENTS: None},
        parameters=(_JOB, _LAST),
        refusals=(404, 422),
    ),
    Operation(
        "exportCrawl",
        "get",
        paths.CRAWL_EXPORT,
        "Download a crawl",
        {JSON: [replies.CrawlPage], "text/csv": None, "application/zip": None},
        parameters=(_JOB, _FORMAT),
        refusals=(404, 410, 422),
    ),
    Operation(
        "getCrawlReceipt",
        "get",
        paths.CRAWL_RECEIPT,
        "Read what became of every URL that a crawl saw (ours)",
        {JSON: replies.ReceiptPage},
        parameters=(
            _JOB,
            _PAGE,
            _number(
                "per_page", limits.RECEIPT_PER_PAGE, limits.RECEIPT_PER_PAGE_DEFAULT, "Entries."
            ),
            Parameter("outcome", "query", _ANY, "Entries with this outcome only."),
            Parameter("url", "query", _ANY, "The entry of this URL only."),
        ),
        refusals=(404, 422),
    ),
    Operation(
        "listJobs",
        "get",
        paths.JOBS,
        "List your jobs (ours)",
        {JSON: replies.JobList},
        parameters=(_LISTED, _CURSOR),
        refusals=(422,),
    ),
    Operation(
        "cancelJob",
        "post",
        paths.JOB_CANCEL,
        "Cancel a job that is pending or running; again is a success too",
        {JSON: replies.CancelReply},
        requests.NoParameters,
        (_JOB,),
        (404,),
    ),
    Operation(
        "retryJob",
        "post",
        paths.JOB_RETRY,
        "Start a failed or cancelled job anew, with its saved configuration",
        {JSON: replies.RetryReply},
        requests.NoParameters,
        (_JOB,),
        (404, 409, 429),
    ),
    Operation(
        "listCreatives",
        "post",
        paths.CREATIVES,
        "List ads of one advertiser",
        {JSON: replies.CreativesReply},
        requests.CreativesRequest,
        refusals=_SOURCE_REFUSALS,
    ),
    Operation(
        "findAdvertisers",
        "get",
        paths.ADVERTISERS,
        "Find advertisers by name or domain (ours)",
        {JSON: replies.AdvertisersReply},
        parameters=(
            Parameter(
                "query",
                "query",
                {"type": "string", "minLength": 1, "maxLength": limits.ADVERTISER_QUERY_LENGTH},
                required=True,
            ),
            _number("limit", limits.ADVERTISERS, limits.ADVERTISERS_DEFAULT, "At most so many."),
            _number("timeout_ms", limits.TIMEOUT_MS, limits.TIMEOUT_MS_DEFAULT, "Milliseconds."),
        ),
        refusals=_SOURCE_REFUSALS,
    ),
    Operation(
        "getCreativesFile",
        "get",
        paths.CREATIVES_FILE,
        "Download a stored file of a creative (ours)",
        {"*/*": None},
        parameters=(
            Parameter(
                "sha256", "path", {"type": "string", "pattern": "^[0-9a-f]{64}$"}, required=True
            ),
        ),
        refusals=(404,),
    ),
    Operation(
        "listWeights",
        "get",
        paths.WEIGHTS,
        "What each operation costs in credits",
        {JSON: [replies.Weight]},
    ),
    Operation(
        "getUsage",
        "get",
        paths.USAGE,
        "Credits and active work of your account (ours)",
        {JSON: replies.UsageReply},
    ),
    Operation(
        "listEngines",
        "get",
        paths.ENGINES,
        "Whom each engine asks (ours)",
        {JSON: replies.EngineList},
        refusals=(422,),
    ),
    Operation(
        "listDeliveries",
        "get",
        paths.WEBHOOK_DELIVERIES,
        "List webhook deliveries of your jobs",
        {JSON: replies.DeliveryList},
        parameters=(
            Parameter("job_id", "query", _ANY, "Deliveries of this job only."),
            _LISTED,
            _CURSOR,
        ),
        refusals=(422,),
    ),
    Operation(
        "replayDelivery",
        "post",
        paths.WEBHOOK_REPLAY,
        "Send an ended delivery again",
        {JSON: replies.ReplayReply},
        None,
        (Parameter("delivery_id", "path", _ID, required=True),),
        (404,),
    ),
    Operation(
        "testWebhook",
        "post",
        paths.WEBHOOK_TEST,
        "Send one signed test delivery now",
        {JSON: replies.WebhookTested},
        requests.WebhookTest,
    ),
    Operation(
        "getWebhookStats",
        "get",
        paths.WEBHOOK_STATS,
        "Count webhook deliveries of your jobs",
        {JSON: replies.WebhookStats},
    ),
    Operation(
        "getHealth", "get", paths.HEALTH, "The process answers", {JSON: replies.Health}, open=True
    ),
    Operation(
        "getReadiness",
        "get",
        paths.READY,
        "The service can do its work",
        {JSON: replies.Health},
        open=True,
        unready=True,
    ),
    Operation("getDocument", "get", paths.OPENAPI, "This document", {JSON: None}),
)
