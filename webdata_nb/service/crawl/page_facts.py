"""The facts of a crawl's pages for an audit: stored in the journal, and read from it. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.service.crawl.journal import CrawlResult, decode_entry
from webdata_nb.service.pages.page_pipeline import PageVisit
from webdata_nb.service.store.records import StoredEntry

MIN_SECONDS: Final = 1.0
# The fields that a page's facts have beside its outlinks, whose URLs the journal has already.
_OF_LINKS: Final = frozenset({"anchors", "rels"})


def facts_of_visit(visit: PageVisit, *, audits: bool) -> dict[str, Any]:
    """Return what the journal stores of a visit; empty fields are left out.

    So is a short time, which would be another one at each visit of an unchanged page. Without an
    audit, the facts are a status other than that of nearly every page.
    """
    if not audits:
        is_usual = visit.status in (None, HTTPStatus.OK)
        return {} if is_usual else {"status": visit.status}
    audit = {} if visit.scraped is None else visit.scraped.audit
    facts = {
        "status": visit.status,
        "redirects": visit.redirects,
        "seconds": round(visit.fetch_s, 1) if visit.fetch_s >= MIN_SECONDS else None,
        "audit": audit,
    }
    return {name: value for name, value in facts.items() if value}


def facts_of_unchanged(facts: Mapping[str, Any], visit: PageVisit) -> dict[str, Any]:
    """Return what the journal stores of an unchanged page, from the facts of an earlier visit."""
    if not facts:
        return {}
    redirects = {"redirects": visit.redirects} if visit.redirects else {}
    return {"status": facts["status"], **redirects, "audit": facts["audit"]}


def page_facts(entry: StoredEntry, seeds: frozenset[str] | None) -> dict[str, Any]:
    """Return the facts of a journal entry, by the names of `contract.replies.PageFacts`.

    `seeds` are the keys of the pages that the sitemaps list, None if the crawl read none.
    """
    stored = decode_entry(entry.journal)
    url, result, facts = stored.url, stored.result, stored.facts
    audit = facts.get("audit", {})
    declared = {name: value for name, value in audit.items() if name not in _OF_LINKS}
    return {
        "url": url,
        "final_url": result.final_url,
        "position": entry.position,
        "result": result.kind,
        "reason": result.reason,
        "error": result.detail,
        "status_code": facts.get("status", HTTPStatus.OK if result.kind == "page" else None),
        "fetch_seconds": facts.get("seconds"),
        "redirects": [
            {"url": hop, "status_code": status} for hop, status in facts.get("redirects", ())
        ],
        "canonical": result.canonical,
        "content_hash": result.content_hash,
        "in_sitemap": None if seeds is None else canonical_key(url) in seeds,
        "links": list(_links(result, audit)),
        "sketch": b64encode(result.sketch).decode() if audit else "",
        "audit": declared or None,
    }


def _links(result: CrawlResult, audit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    site = site_of(result.final_url)
    texts: Sequence[str | None] = audit.get("anchors") or ()
    if len(texts) != len(result.links):  # without an audit
        texts = [None] * len(result.links)
    rels = audit.get("rels") or {str(index): "nofollow" for index in result.nofollow_links}
    for index, (url, text) in enumerate(zip(result.links, texts, strict=True)):
        rel = rels.get(str(index))
        yield {"url": url, "text": text, "rel": rel, "internal": site_of(url) == site}
