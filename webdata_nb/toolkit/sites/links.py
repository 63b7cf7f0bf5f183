"""Derives the frame of links, and what they lead to, from the pages of a crawl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

import pandas as pd
import pyarrow as pa

from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.derive import page_lists, page_urls, to_frame
from webdata_nb.toolkit.sites.pages import (
    PAGE_FACTS,
    AuditLink,
    LinkTarget,
    facts_object,
    is_broken,
    links_of,
    target_behind,
    target_of,
)

_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("url", schemas.TEXT),
    ("position", pa.int32()),
    ("link", schemas.TEXT),
    ("internal", pa.bool_()),
    ("text", schemas.TEXT),
    ("rel", schemas.TEXT),
    ("status_code", pa.int32()),
    ("error", schemas.TEXT),
]
_LINKS: Final = pa.schema(_FIELDS)


def links_df(df: pd.DataFrame, *, broken: bool = False) -> pd.DataFrame:
    """Return the links of the pages, from the column `page_facts` or `links`.

    Raises
    ------
    InvalidArgument
        The frame has neither.
    """
    if PAGE_FACTS in df.columns:
        return links_of_facts(_facts_of_rows(df), df, broken=broken)
    links = (
        (url, position, AuditLink(link, None, None, _site(link) == _site(url)))
        for url, page_links in page_lists(df, "links")
        for position, link in enumerate(page_links, 1)
        if isinstance(link, str)
    )
    return _links_frame(links, _targets((), df), df, broken=broken)


def links_of_facts(
    facts: Iterable[Mapping[str, Any]], df: pd.DataFrame | None = None, *, broken: bool = False
) -> pd.DataFrame:
    """Return the links of pages from their facts; `df` is the frame that they belong to.

    The facts of other URLs say what links to them lead to. If there is a frame, links of other
    pages are left out.
    """
    facts = list(facts)
    pages = None if df is None else set(page_urls(df))
    links = (
        (page["url"], position, link)
        for page in facts
        if page.get("position") is not None and (pages is None or page["url"] in pages)
        for position, link in enumerate(links_of(page), 1)
    )
    df = pd.DataFrame() if df is None else df
    return _links_frame(links, _targets(facts, df), df, broken=broken)


def _links_frame(
    links: Iterable[tuple[str, int, AuditLink]],
    targets: Mapping[str, LinkTarget],
    df: pd.DataFrame,
    *,
    broken: bool,
) -> pd.DataFrame:
    """Return links, with the URL of their page and their place on it, and what they lead to."""
    rows = []
    for url, position, link in links:
        target = target_behind(targets, link.url)
        if broken and not (target is not None and is_broken(target, internal=link.internal)):
            continue
        row = {"url": url, "position": position, "link": link.url, "internal": link.internal}
        row |= {"text": link.text, "rel": link.rel}
        if target is not None:
            row |= {"status_code": target.status_code, "error": target.error or None}
        rows.append(row)
    return to_frame("links", rows, _LINKS, df)


def _targets(facts: Iterable[Mapping[str, Any]], df: pd.DataFrame) -> dict[str, LinkTarget]:
    """Return what is known about each URL, by its key: from facts, and from the rows of a frame."""
    targets: dict[str, LinkTarget] = {}
    for each in facts:
        for url, of_url in ((each["url"], each), *each.get("targets", {}).items()):
            targets[canonical_key(url)] = target_of(of_url)
    if {"url", "status_code", "error"} <= set(df.columns):
        columns = [frame.column_values(df[name]) for name in ("status_code", "error")]
        for url, status_code, error in zip(page_urls(df), *columns, strict=True):
            key = canonical_key(url)
            target = targets.get(key) or LinkTarget("failed" if error else "page", url)
            targets[key] = replace(target, status_code=status_code, error=error or "")
    return targets


def _facts_of_rows(df: pd.DataFrame) -> Iterator[Mapping[str, Any]]:
    for position, (url, facts) in enumerate(zip(page_urls(df), df[PAGE_FACTS], strict=True)):
        yield {**facts_object(facts), "url": url, "position": position}


def _site(url: str) -> str:
    """Return what identifies the site of a URL; a foreign service may not have normalized it."""
    try:
        return site_of(urlsplit(url)._replace(netloc=urlsplit(url).netloc.lower()).geturl())
    except ValueError:
        return url
