"""Every number of the contract's part 8, and the ones it leaves open, with our choice."""

from __future__ import annotations

from typing import Final

NUM_RESULTS: Final = (1, 50)
NUM_RESULTS_DEFAULT: Final = 10
QUERY_LENGTH: Final = (1, 2048)
MAX_PAGES: Final = (1, 1000)
MAX_PAGES_DEFAULT: Final = 100
MAX_DEPTH: Final = (1, 10)
MAX_DEPTH_DEFAULT: Final = 10
CONCURRENCY: Final = (1, 10)
CONCURRENCY_DEFAULT: Final = 5
CREATIVES_LIMIT: Final = (1, 40)
CREATIVES_LIMIT_DEFAULT: Final = 40
ADVERTISERS: Final = (1, 50)
ADVERTISERS_DEFAULT: Final = 10
ADVERTISER_QUERY_LENGTH: Final = 200
TIMEOUT_MS: Final = (5_000, 90_000)
TIMEOUT_MS_DEFAULT: Final = 30_000
SCRAPE_TIMEOUT_MS: Final = (1, 300_000)
SCRAPE_TIMEOUT_MS_DEFAULT: Final = 30_000
SCREENSHOT_SIDE: Final = (16, 7680)
PER_PAGE: Final = (1, 1000)
PER_PAGE_DEFAULT: Final = 100
URL_LENGTH: Final = 2083
PATTERNS: Final = 200
HEADERS: Final = 50
HEADER_LENGTH: Final = 8192
IDEMPOTENCY_KEY_LENGTH: Final = 255
# Spaces at the ends of a header's value are lost on the way; between them they count.
IDEMPOTENCY_KEY_FORM: Final = "[ -~]*[!-~][ -~]*"
RETENTION_HOURS: Final = 48
WEBHOOK_ATTEMPTS: Final = 3
RECEIPT_EXAMPLES: Final = 20
RECEIPT_PER_PAGE: Final = (1, 10_000)
RECEIPT_PER_PAGE_DEFAULT: Final = 1000
JOBS_LISTED: Final = (1, 1000)
JOBS_LISTED_DEFAULT: Final = 100
STATUS_WAIT_S: Final = 30
# Files of one creative; a carousel has up to ten pictures.
CREATIVE_FILES: Final = 10
