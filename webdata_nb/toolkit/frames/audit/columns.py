"""Adds the columns of an audit to the rows of a crawl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.errors import IncompleteResult
from webdata_nb.toolkit.frames import schemas
from webdata_nb.toolkit.frames.audit.clusters import clusters
from webdata_nb.toolkit.frames.audit.link_graph import MAX_FOUND_ON, LinkGraph, row_positions
from webdata_nb.toolkit.frames.audit.pages import NOINDEX, robots_directives
from webdata_nb.toolkit.frames.json_text import dumps

Facts = Mapping[str, Any]
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
