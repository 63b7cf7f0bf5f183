"""Adds the columns of an audit to the rows of a crawl: the graph of links, clusters, indexability.

The graph says who links to a page, and how important that makes it. Clusters are pages whose texts
are nearly the same, by the sketches of their pairs of words.
"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.errors import IncompleteResult
from webdata_nb.toolkit.frames import schemas
from webdata_nb.toolkit.frames.json_columns import dumps
from webdata_nb.toolkit.sites.issues import MIN_SIMILARITY
from webdata_nb.toolkit.sites.pages import NOINDEX, links_of, robots_directives

_HASH_BYTES: Final = 4
# Rare hashes by which candidates are found. Of two texts that share 90 %, each of the rarest is
# common with that probability.
_KEYS: Final = 8
# Groups that a page is compared with for each of its keys, which bounds the work.
_MAX_GROUPS: Final = 50

Sketch = frozenset[bytes]


def clusters(encoded: Sequence[str]) -> list[int | None]:
    """Return the number of each page's cluster, from 1 in their order; None for a page alone.

    `encoded` are the sketches of the pages in Base64, empty without a text.
    """
    sketches = [_sketch(each) for each in encoded]
    leaders = _leaders(sketches)
    sizes = Counter(leaders)
    numbers: dict[int, int] = {}
    for leader in leaders:
        if sizes[leader] > 1:
            numbers.setdefault(leader, len(numbers) + 1)
    return [numbers.get(leader) for leader in leaders]


def _sketch(encoded: str) -> Sketch:
    data = b64decode(encoded)
    return frozenset(
        data[start : start + _HASH_BYTES] for start in range(0, len(data), _HASH_BYTES)
    )


def _leaders(sketches: Sequence[Sketch]) -> list[int]:
    """Return the first page of each page's group: one that is nearly the same, or itself."""
    frequencies = Counter(each for sketch in sketches for each in sketch)
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    leaders = []
    for page, sketch in enumerate(sketches):
        shared = (each for each in sketch if frequencies[each] > 1)
        keys = sorted(shared, key=lambda each: (frequencies[each], each))[:_KEYS]
        candidates = dict.fromkeys(leader for key in keys for leader in groups[key])
        similar = (each for each in candidates if _are_similar(sketches[each], sketch))
        leader = next(similar, page)
        leaders.append(leader)
        for key in keys:
            if leader not in groups[key] and len(groups[key]) < _MAX_GROUPS:
                groups[key].append(leader)
    return leaders


def _are_similar(first: Sketch, second: Sketch) -> bool:
    """Return whether two texts share enough pairs of words, estimated from the smallest hashes."""
    size = max(len(first), len(second))
    smallest = set(sorted(first | second)[:size])
    return len(smallest & first & second) >= MIN_SIMILARITY * len(smallest) > 0


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


# What the column has of the facts of a row; the others are columns of their own.
_COMMON: Final = ("result", "reason", "final_url", "status_code", "redirects", "in_sitemap")
_OF_TARGETS: Final = (*_COMMON, "error")
_OF_ROWS: Final = (*_COMMON, "fetch_seconds")


def with_audit_columns(table: pa.Table, facts: Sequence[Facts]) -> pa.Table:
    """Return a crawl's rows with the columns of an audit.

    Parameters
    ----------
    table
        The rows in the schema of crawls, all of them, in their order.
    facts
        The facts of all URLs that the crawl decided on.

    Raises
    ------
    IncompleteResult
        Rows have no facts.
    """
    rows = sorted(
        (each for each in facts if each.get("position") is not None),
        key=lambda each: int(each["position"]),
    )
    if [each["position"] for each in rows] != list(range(table.num_rows)):
        raise IncompleteResult(table.num_rows, len(rows), why="the facts of pages are incomplete")
    for name, values in _columns(facts, rows).items():
        field = schemas.SCHEMAS["crawl"].field(name)
        table = table.set_column(
            table.schema.get_field_index(name), field, pa.array(values, field.type)
        )
    return table


def _columns(facts: Sequence[Facts], rows: Sequence[Facts]) -> dict[str, list[Any]]:
    positions = row_positions(facts, rows)
    graph = LinkGraph.of(rows, positions)
    urls = [each["url"] for each in rows]
    targets = _targets_without_row(facts, rows, positions)
    linked = {canonical_key(link["url"]) for each in rows for link in each.get("links", ())}
    by_key = {canonical_key(url): target for url, target in targets.items()}
    unlinked = {url: target for url, target in targets.items() if canonical_key(url) not in linked}
    reasons = [_not_indexable(each) for each in rows]
    return {
        "found_on": [
            [urls[source] for source in sources[:MAX_FOUND_ON]] for sources in graph.sources
        ],
        "inlinks": list(map(len, graph.sources)),
        "outlinks": list(graph.outlinks),
        "indexable": [not reason for reason in reasons],
        "indexable_reason": [reason or None for reason in reasons],
        "redirect_chain": [dumps(each.get("redirects") or []) for each in rows],
        "cluster": clusters([each.get("sketch") or "" for each in rows]),
        "pagerank": graph.pagerank(),
        # Those that no page links to, such as URLs of a sitemap, are in the first row.
        "page_facts": [
            dumps(_page_facts(each, by_key, unlinked if number == 0 else {}))
            for number, each in enumerate(rows)
        ],
    }


def _targets_without_row(
    facts: Sequence[Facts], rows: Sequence[Facts], positions: Mapping[str, int]
) -> dict[str, Facts]:
    """Return what the URLs without a row led to."""
    urls = [each["url"] for each in rows]
    targets: dict[str, Facts] = {}
    for each in facts:
        if each.get("position") is None:
            target = {name: each[name] for name in _OF_TARGETS if each.get(name)}
            position = positions.get(canonical_key(each["url"]))
            if position is not None and not each["redirects"]:
                target["same_as"] = urls[position]
            targets[each["url"]] = target
    return targets


def _page_facts(
    facts: Facts, targets: Mapping[str, Facts], unlinked: Mapping[str, Facts]
) -> dict[str, Any]:
    """Return the facts of a row; `targets` has those of the URLs without one, by their keys."""
    links = facts.get("links") or []
    linked = {link["url"]: targets.get(canonical_key(link["url"])) for link in links}
    return {
        **{name: facts[name] for name in _OF_ROWS if facts.get(name) is not None},
        "audit": facts.get("audit"),
        "links": links,
        "targets": {url: target for url, target in {**linked, **unlinked}.items() if target},
    }


def _not_indexable(facts: Facts) -> str:
    """Return why a search engine would not list a page under its URL; "" if it may."""
    if facts["result"] != "page":
        return f"failed: {facts.get('reason') or facts['result']}"
    if facts.get("redirects"):
        return "redirects"
    audit = facts.get("audit") or {}
    values = [*audit.get("robots", ()), *audit.get("x_robots", ())]
    if NOINDEX in robots_directives(values):
        return NOINDEX
    canonicals = {url and canonical_key(url) for url in audit.get("canonicals", ())}
    is_elsewhere = len(canonicals) == 1 and not canonicals & {canonical_key(facts["url"]), None}
    return "canonical" if is_elsewhere else ""
