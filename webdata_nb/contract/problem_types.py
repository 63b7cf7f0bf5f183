"""Names the types of invalid fields, `type` in a 422, that clients act on."""

from __future__ import annotations

from typing import Final

# Of `since`: its crawl is deleted, or was made differently. The same request without it is allowed.
EARLIER_CRAWL_UNUSABLE: Final = "earlier_crawl_unusable"
