"""Reads what a crawl stores of the visit of a page beside its row: validators and facts. Pure."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.service.crawl.journal import CrawlResult, decode_entry
from webdata_nb.service.pages import PageVisit
from webdata_nb.service.store.records import JournalEntry
from webdata_nb.service.web.fetch import is_header_value

# A page may change again within the second of its Last-Modified, and keep it (RFC 9110, 8.8.2.2).
_RESOLUTION: Final = timedelta(seconds=1)
_MAX_CHARACTERS: Final = 1024
# One entity tag; some servers leave out the quotes. A "*" or a list would match other versions too.
_ENTITY_TAG: Final = re.compile(r'(?:W/)?(?:"[^"]*"|[^",*\s]+)')


def validators_of(visit: PageVisit) -> tuple[str, str]:
    """Return ETag and Last-Modified of a page that was fetched.

    Both are empty where the reply has none that can be relied on.
    """
    headers = {name.lower(): value for name, value in reversed(visit.headers)}
    modified = headers.get("last-modified", "")
    if modified and not _is_reliable(modified, headers.get("date"), visit.fetched_at):
        return "", ""
    etag = headers.get("etag", "")
    if not _ENTITY_TAG.fullmatch(etag) or not is_header_value(etag):
        etag = ""
    is_usable = not visit.rendered and visit.error is None
    if not is_usable or max(len(etag), len(modified)) > _MAX_CHARACTERS:
        return "", ""
    return etag, modified


def _is_reliable(modified: str, date: str | None, fetched_at: datetime) -> bool:
    """Whether a page cannot have changed since, and have the same Last-Modified."""
    changed_at = _time(modified) if is_header_value(modified) else None
    sent_at = (_time(date) if date else None) or fetched_at
    return changed_at is not None and sent_at - changed_at >= _RESOLUTION


@lru_cache(maxsize=64)
def _time(text: str) -> datetime | None:
    """Return the time of an HTTP date; None if it is malformed.

    Replies of one second have the same Date, and files of one release the same Last-Modified.
    """
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return at if at.tzinfo is not None else None


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


def page_facts(entry: JournalEntry, seeds: frozenset[str] | None) -> dict[str, Any]:
    """Return the facts of a journal entry, by the names of `contract.replies.PageFacts`.

    `seeds` are the keys of the pages that the sitemaps list, None if the crawl read none.
    """
    result = decode_entry(entry.journal)
    url, facts = result.url, result.facts
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
