"""The links between the rows of a crawl: who links to a page, and how important that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.toolkit.frames.audit.pages import links_of

# Share of visitors who follow a link, as in the paper (Brin and Page, 1998).
DAMPING: Final = 0.85
_MAX_ROUNDS: Final = 100
_TOLERANCE: Final = 1e-9
# Pages that link to a page and are listed one by one, so that a frame stays linear in its links.
MAX_FOUND_ON: Final = 20

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The links between rows; a page is the position of its row.

    Attributes
    ----------
    sources
        For each page, those that link to it, in their order, each once.
    outlinks
        For each page, the pages that it links to, of any site.
    targets
        For each page, those that its links pass importance to.
    """

    sources: tuple[tuple[int, ...], ...]
    outlinks: tuple[int, ...]
    targets: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, rows: Sequence[Facts], positions: Mapping[str, int]) -> LinkGraph:
        """Return the links of the rows; `positions` is what `row_positions` returned."""
        sources: list[list[int]] = [[] for _ in rows]
        targets: list[tuple[int, ...]] = []
        outlinks = []
        for source, facts in enumerate(rows):
            links = list(links_of(facts))
            outlinks.append(len(links))
            led = [
                (positions.get(canonical_key(link.url), source), link.is_nofollow) for link in links
            ]
            for target in dict.fromkeys(target for target, _ in led if target != source):
                sources[target].append(source)
            followed = (target for target, nofollow in led if target != source and not nofollow)
            targets.append(tuple(dict.fromkeys(followed)))
        return cls(tuple(map(tuple, sources)), tuple(outlinks), tuple(targets))

    def pagerank(self) -> list[float]:
        """Return the share of each page in the visits of a random surfer; the sum is 1.

        Links with `rel=nofollow` pass nothing. A page without links passes its share to all.
        """
        if not self.targets:
            return []
        count = len(self.targets)
        ranks = [1 / count] * count
        for _ in range(_MAX_ROUNDS):
            dangling = sum(rank for rank, to in zip(ranks, self.targets, strict=True) if not to)
            fresh = [(1 - DAMPING + DAMPING * dangling) / count] * count
            for rank, to in zip(ranks, self.targets, strict=True):
                share = DAMPING * rank / len(to) if to else 0.0
                for target in to:
                    fresh[target] += share
            change = sum(abs(new - old) for new, old in zip(fresh, ranks, strict=True))
            ranks = fresh
            if change < _TOLERANCE * count:
                break
        return ranks


def row_positions(facts: Sequence[Facts], rows: Sequence[Facts]) -> dict[str, int]:
    """Return the row that each URL of a crawl leads to, directly or through redirects, by its key.

    `facts` are those of all URLs, `rows` those of the rows, in their order.
    """
    positions = {canonical_key(each["url"]): position for position, each in enumerate(rows)}
    by_hash: dict[str, int] = {}
    for position, each in enumerate(rows):
        if each["result"] == "page":
            positions.setdefault(canonical_key(each["final_url"]), position)
            by_hash.setdefault(each.get("content_hash") or "", position)
    for each in facts:
        key = canonical_key(each["url"])
        if key not in positions and each["result"] == "page":
            duplicate = by_hash.get(each.get("content_hash") or "", -1)
            declared = positions.get(canonical_key(each["canonical"] or ""), duplicate)
            position = positions.get(canonical_key(each["final_url"]), declared)
            if position >= 0:
                positions[key] = position
    return positions
