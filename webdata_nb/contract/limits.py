"""Limits and defaults of the contract (part 8), and of fields without limits there."""

from __future__ import annotations

from typing import Final

NUM_RESULTS: Final = (1, 50)
NUM_RESULTS_DEFAULT: Final = 10
QUERY_LENGTH: Final = (1, 2048)
MAX_PAGES: Final = (1, 1000)
MAX_PAGES_DEFAULT: Final = 100
# Of a long crawl (ours), and the pages between two of its checkpoints. The state of a crawl is in
# memory, about 2 kB for each page and 150 bytes for each URL that waits, so that more pages need a
# bound.
EXTENDED_MAX_PAGES: Final = (1, 100_000)
CHECKPOINT_PAGES: Final = 1000
# Share of the pages that a site calls unchanged which an incremental crawl (ours) fetches in full.
RECHECK: Final = (0.0, 1.0)
RECHECK_DEFAULT: Final = 0.01
# Captures in one reply of a web archive's index (ours), and characters of a time.
CAPTURES_LISTED: Final = (1, 10_000)
CAPTURES_LISTED_DEFAULT: Final = 1000
TIME_LENGTH: Final = 40
# Days between a capture of a web archive and the date of a dated crawl (ours).
CAPTURE_DISTANCE: Final = (0.0, 36_500.0)
CAPTURE_DISTANCE_DEFAULT: Final = 30.0
# Pages of one request to verify values (ours).
PAGES_TO_VERIFY: Final = 20
# Pages that one crawl (ours) reads from a list of URLs.
PAGE_URLS: Final = 1000
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
# Of include_paths, and of exclude_paths: entries, characters of all of them together, and
# wildcards (`*` or `**`) of one pattern.
PATTERNS: Final = 200
PATTERNS_SIZE: Final = 16_384
PATTERN_WILDCARDS: Final = 16
# Of include_tags, and of exclude_tags; `wait_for` is one selector.
SELECTORS: Final = 100
SELECTOR_LENGTH: Final = 1000
SELECTORS_SIZE: Final = 16_384
# Of headers, and of cookies: entries, characters of a name, of a value, of all of them together.
HEADERS: Final = 50
HEADER_NAME_LENGTH: Final = 256
HEADER_LENGTH: Final = 8192
HEADERS_SIZE: Final = 32_768
FORMATS: Final = 32
LANGUAGE_LENGTH: Final = 35
DEVICE_LENGTH: Final = 100
PROMPT_LENGTH: Final = 20_000
PROVIDER_LENGTH: Final = 64
MODEL_LENGTH: Final = 200
# An extraction schema: characters of it as compact JSON, fields, levels, and `enum`
# values of one field and of all fields together.
SCHEMA_SIZE: Final = 65_536
SCHEMA_FIELDS: Final = 500
SCHEMA_DEPTH: Final = 16
SCHEMA_NAME_LENGTH: Final = 200
SCHEMA_CHOICES: Final = 1000
SCHEMA_CHOICES_TOTAL: Final = 5000
WEBHOOK_SECRET_LENGTH: Final = 1024
REGION_LENGTH: Final = 64
ADVERTISER_ID_LENGTH: Final = 64
CURSOR_LENGTH: Final = 4096
DATE_RANGE_LENGTH: Final = 22
# A request's body: bytes, levels of nesting, and values in all (list entries and object fields).
BODY_BYTES: Final = 262_144
BODY_DEPTH: Final = 64
BODY_VALUES: Final = 10_000
# Settings of a local session.
SETTING_LENGTH: Final = 4096
SESSION_PROVIDERS: Final = 50
IDEMPOTENCY_KEY_LENGTH: Final = 255
# HTTP strips spaces at the ends of a header's value, so a key of spaces alone is invalid.
IDEMPOTENCY_KEY_FORM: Final = "[ -~]*[!-~][ -~]*"
RETENTION_HOURS: Final = 48
WEBHOOK_ATTEMPTS: Final = 3
RECEIPT_EXAMPLES: Final = 20
RECEIPT_PER_PAGE: Final = (1, 10_000)
RECEIPT_PER_PAGE_DEFAULT: Final = 1000
PAGE_FACTS: Final = (1, 1000)
PAGE_FACTS_DEFAULT: Final = 100
JOBS_LISTED: Final = (1, 1000)
JOBS_LISTED_DEFAULT: Final = 100
STATUS_WAIT_S: Final = 30
# Files of one creative; a carousel has up to ten pictures.
CREATIVE_FILES: Final = 10
