"""Names what clients act on: types of invalid fields in a 422, and the code of a 502."""

from __future__ import annotations

from typing import Final

# Of `since`: its crawl is deleted, or was made differently. The same request without it is allowed.
EARLIER_CRAWL_UNUSABLE: Final = "earlier_crawl_unusable"
# Of a 502: the source of ads refuses the key or the request, and would refuse it again.
REFUSED: Final = "refused"
