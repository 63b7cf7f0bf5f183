"""Paths of all operations, relative to the base URL."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

SEARCH: Final = "/v1/search"
SEARCH_JOB: Final = "/v1/search/{job_id}"
SEARCH_EVENTS: Final = "/v1/search/{job_id}/events"
SEARCH_EXPORT: Final = "/v1/search/{job_id}/export"
CRAWL: Final = "/v1/crawl"
EXTENDED_CRAWLS: Final = "/v1/crawls"
CRAWL_JOB: Final = "/v1/crawl/{job_id}"
CRAWL_EVENTS: Final = "/v1/crawl/{job_id}/events"
CRAWL_EXPORT: Final = "/v1/crawl/{job_id}/export"
CRAWL_RECEIPT: Final = "/v1/crawl/{job_id}/receipt"
CRAWL_PAGE_FACTS: Final = "/v1/crawl/{job_id}/page-facts"
JOBS: Final = "/v1/jobs"
JOB: Final = "/v1/jobs/{job_id}"
JOB_CANCEL: Final = "/v1/jobs/{job_id}/cancel"
JOB_RETRY: Final = "/v1/jobs/{job_id}/retry"
VERIFY: Final = "/v1/verify"
CAPTURES: Final = "/v1/captures"
CREATIVES: Final = "/v1/data/partner-ads/transparency/creatives"
CREATIVES_FILE: Final = "/v1/data/partner-ads/transparency/files/{sha256}"
ADVERTISERS: Final = "/v1/data/partner-ads/transparency/advertisers"
WEIGHTS: Final = "/v1/data-api-weights/public"
USAGE: Final = "/v1/usage"
ENGINES: Final = "/v1/engines"
WEBHOOK_DELIVERIES: Final = "/v1/webhooks/deliveries"
WEBHOOK_REPLAY: Final = "/v1/webhooks/deliveries/{delivery_id}/replay"
WEBHOOK_TEST: Final = "/v1/webhooks/test"
WEBHOOK_STATS: Final = "/v1/webhooks/stats"
OPERATOR_VIEW: Final = "/v1/operator/{view}"
OPERATOR_JOB: Final = "/v1/operator/jobs/{job_id}"
OPERATOR_JOB_CANCEL: Final = "/v1/operator/jobs/{job_id}/cancel"
HEALTH: Final = "/healthz"
READY: Final = "/readyz"
OPENAPI: Final = "/openapi.json"
# Not part of the OpenAPI document.
DOCS: Final = "/docs"
DOCS_FILES: Final = ("swagger-ui.css", "swagger-ui-bundle.js", "start.js", "favicon-32x32.png")
OPERATOR_PAGE: Final = "/operator"
OPERATOR_PAGE_VIEW: Final = "/operator/{view}"
OPERATOR_PAGE_JOB: Final = "/operator/jobs/{job_id}"
OPERATOR_EVENTS: Final = "/operator/events"
OPERATOR_STYLE: Final = "/operator/operator.css"
OPERATOR_SCRIPT: Final = "/operator/operator.js"
SIGNATURE_DIRECTORY: Final = "/.well-known/http-message-signatures-directory"

# Only the local service has these; they are not part of the public contract.
LOCAL_PREFIX: Final = "/local/"
LOCAL_HELLO: Final = "/local/hello"
LOCAL_LEASE: Final = "/local/leases/{lease_id}"
LOCAL_SETTINGS: Final = "/local/leases/{lease_id}/settings"
LOCAL_STOP: Final = "/local/stop"
LOCAL_SITES_REMOVE: Final = "/local/sites/remove"

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
LEASE_HEADER: Final = "X-Webdata-Lease"


def fill(path: str, **names: str) -> str:
    """Return `path` with its `{name}` parts filled, each percent-encoded as one segment.

    Raises
    ------
    ValueError
        A value that cannot be a segment: clients resolve `.` and `..`, encoded or not.
    """
    if invalid := [value for value in names.values() if value in {"", ".", ".."}]:
        raise ValueError(f"{invalid[0]!r} cannot be a segment of a path")
    return path.format(**{name: quote(value, safe="") for name, value in names.items()})
