"""The catalog of credit weights: what one unit of each operation costs."""

from __future__ import annotations

from typing import Final

from webdata_nb.contract.replies import Weight

_PRICES: Final[dict[tuple[str, str], float]] = {
    ("search", "discovery"): 1,
    ("search", "scrape"): 1,
    ("search", "extract"): 4,
    ("crawl", "page"): 1,
    ("crawl", "extract"): 4,
    ("crawl", "render"): 2,
    ("partner_ads_transparency", "creatives"): 1,
    ("partner_ads_transparency", "details"): 1,
    ("partner_ads_transparency", "assets"): 1,
    ("partner_ads_transparency", "ocr"): 2,
}
CATALOG: Final = tuple(
    Weight(platform=platform, operation=operation, weight=weight)
    for (platform, operation), weight in _PRICES.items()
)
