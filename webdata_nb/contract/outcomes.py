"""What can become of a URL that a crawl saw: the words of a receipt, and what they mean."""

from __future__ import annotations

from typing import Final

FETCHED: Final = "fetched"
FAILED: Final = "failed:"

# A new outcome needs its line here and nothing else: routes, frames and `why` read this table.
MEANINGS: Final[dict[str, str]] = {
    FETCHED: "it is a row",
    "robots": "robots.txt keeps it out",
    "scope": "it is on another site",
    "filtered": "include_paths or exclude_paths leave it out",
    "depth": "it is further away from the start page than max_depth",
    "facet": "it is a view of a page that is there already",
    "duplicate": "its content is that of an earlier page",
    "canonical": "it names another page, which is there already, as its canonical address",
    "nofollow": "every link to it asks not to be followed",
    "redirect": "it leads to a page that is there already",
    "trap": "it belongs to a part of the site that goes on without end",
    "sitemap": "it is a sitemap that could not be read, or not to its end",
    "over_budget": "it is known, but max_pages was reached",
    "over_requests": "it is known, but the crawl reached its limit of requests, 3 x max_pages + 50",
}


def is_row(outcome: str) -> bool:
    """Tell whether URLs of this outcome are rows of the crawl."""
    return outcome == FETCHED or outcome.startswith(FAILED)


def meaning(outcome: str) -> str:
    """Return what an outcome means, as the end of a sentence; "" for an unknown one.

    Examples
    --------
    >>> meaning("failed:http_404")
    'it is a row that failed (http_404)'
    """
    if outcome.startswith(FAILED):
        return f"it is a row that failed ({outcome.removeprefix(FAILED)})"
    return MEANINGS.get(outcome, "")
