"""The catalog of credit weights: the whole credits that one unit of an operation costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from webdata_nb.contract.replies import Weight

CREATIVES: Final = "partner_ads_transparency"
WEIGHTS: Final[dict[tuple[str, str], int]] = {
    ("search", "discovery"): 1,
    ("search", "scrape"): 1,
    ("search", "extract"): 4,
    ("crawl", "page"): 1,
    ("crawl", "extract"): 4,
    ("crawl", "render"): 2,
    (CREATIVES, "creatives"): 1,
    (CREATIVES, "details"): 1,
    (CREATIVES, "assets"): 1,
    (CREATIVES, "ocr"): 2,
}
CATALOG: Final = tuple(
    Weight(platform=platform, operation=operation, weight=weight)
    for (platform, operation), weight in WEIGHTS.items()
)


@dataclass(frozen=True, slots=True)
class Charge:
    """Units of one operation of the catalog."""

    platform: str
    operation: str
    units: int

    @property
    def credits(self) -> int:
        """The credits that they cost."""
        return self.units * WEIGHTS[self.platform, self.operation]
