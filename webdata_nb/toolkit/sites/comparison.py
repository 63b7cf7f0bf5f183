"""Compares a crawl of a site with what earlier crawls knew of it, field by field.

A page has changed, is new or was removed only where the crawls show it. What a crawl could not
read keeps its last values, so that a page that fails for once is neither removed nor new. Texts are
compared in time that grows with their length only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from webdata_nb.suggestions import counted
from webdata_nb.toolkit.frames.compare import CHANGE_KINDS, ChangeKind, change_kind, changed_text
from webdata_nb.toolkit.frames.receipt import shorten
from webdata_nb.toolkit.sites.watched_pages import PageVersion, SeenUrl, SiteVisit

UnreadKind = Literal["older", "awaited", "copy"]

NOT_LINKED: Final = "no page of the crawl links to it"


class PageChange(NamedTuple):
    """One changed field of a page; a page without a value in any field has one without `field`."""

    change: ChangeKind
    url: str
    field: str | None
    old: str | None
    new: str | None
    evidence: str | None
    old_at: datetime
    new_at: datetime
    old_hash: str | None
    new_hash: str | None
    old_job: str
    new_job: str


@dataclass(frozen=True, slots=True)
class KnownSite:
    """The state of a site after the crawls so far.

    Attributes
    ----------
    job_id, at, is_whole
        Of the last crawl; see `SiteVisit`.
    pages
        The pages by their URLs, as they were read last.
    unread
        URLs that were seen and not read. When one is read, the page is new if it was `awaited`:
        there was no page before, or the URL itself was new. It is not if the URL is `older` than
        the watch, or was a `copy` of another page.
    """

    job_id: str
    at: datetime
    is_whole: bool
    pages: Mapping[str, PageVersion]
    unread: Mapping[str, UnreadKind]

    @classmethod
    def of_first(cls, visit: SiteVisit) -> KnownSite:
        """Return the state of a site after its first crawl."""
        unread = {url: _kind(seen, "older") for url, seen in visit.others.items()}
        return cls(
            visit.job_id,
            visit.at,
            visit.is_whole,
            {page.url: page for page in visit.pages},
            {url: kind for url, kind in unread.items() if visit.others[url].is_of_site},
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The changes of one crawl, and what is known after it.

    `kept` counts the pages that were not read, and `first_read` those that were read for the first
    time and are not known to be new. `sees_unlinked` tells whether pages without a link count as
    removed.
    """

    changes: tuple[PageChange, ...]
    known: KnownSite
    kept: int
    first_read: int
    sees_unlinked: bool


def compare(known: KnownSite, visit: SiteVisit) -> Comparison:
    """Compare a crawl with what is known of its site."""
    seen = _SeenSite(known, visit)
    changes = [*seen.changes_of_read_pages(), *seen.removals()]
    return Comparison(
        tuple(changes),
        KnownSite(visit.job_id, visit.at, visit.is_whole, seen.read | seen.kept, seen.unread()),
        len(seen.kept),
        sum(url not in known.pages and not seen.is_new(url) for url in seen.read),
        seen.sees_unlinked,
    )


def _kind(seen: SeenUrl, otherwise: UnreadKind) -> UnreadKind:
    if seen.is_copy:
        return "copy"
    return "awaited" if seen.is_no_page else otherwise


class _SeenSite:
    """The site as a crawl saw it, with pages under the URLs by which they are known.

    Attributes
    ----------
    read
        The pages that the crawl read, and known ones whose content another page has now.
    others
        The other URLs that it saw.
    """

    def __init__(self, known: KnownSite, visit: SiteVisit) -> None:
        self._known, self._visit = known, visit
        self.read = _by_known_url(known, visit)
        redirected = {
            page.url: SeenUrl("redirect", page.final_url)
            for url, page in self.read.items()
            if page.url not in {url, page.final_url}
        }
        self.others = {**visit.others, **redirected}
        # Known pages that have the content of a page that was read.
        originals = {page.url: page for page in visit.pages}
        self.read |= {
            url: replace(originals[seen.detail], url=url)
            for url, seen in self._unread_pages()
            if seen is not None and seen.is_duplicate and seen.detail in originals
        }

    def _unread_pages(self) -> Iterator[tuple[str, SeenUrl | None]]:
        for url in self._known.pages:
            if url not in self.read:
                yield url, self.others.get(url)

    @cached_property
    def sees_unlinked(self) -> bool:
        """Whether a page that was not seen has no link: all pages that may link to it were read.

        These are the known ones, and those that are seen for the first time.
        """
        seen_before = {*self._known.pages, *self._known.unread}
        may_link = [
            *(seen for _, seen in self._unread_pages() if seen and not seen.is_copy),
            *(s for url, s in self.others.items() if s.has_failed and url not in seen_before),
        ]
        return self._visit.is_whole and all(seen.is_no_page for seen in may_link)

    @cached_property
    def _removed(self) -> dict[str, str]:
        """The pages that were removed, with the reason."""
        return {
            url: seen.reason() if seen is not None else NOT_LINKED
            for url, seen in self._unread_pages()
            if (self.sees_unlinked if seen is None else seen.is_no_page)
        }

    @cached_property
    def kept(self) -> dict[str, PageVersion]:
        """The pages that were not read, as they were read last."""
        return {
            url: self._known.pages[url]
            for url, _ in self._unread_pages()
            if url not in self._removed
        }

    @cached_property
    def _shows_new(self) -> bool:
        """Whether a page that was never seen is new.

        What lies behind a page that was never read before may be as old as that page.
        """
        is_further = any(self._known.unread.get(url) == "older" for url in self.read)
        return self._known.is_whole and not is_further

    def is_new(self, url: str) -> bool:
        """Return whether a page that was read is new."""
        if url in self._known.pages:
            return False
        kind = self._known.unread.get(url)
        return self._shows_new if kind is None else kind == "awaited"

    def unread(self) -> dict[str, UnreadKind]:
        """Return the URLs that were seen and never read, and those of removed pages."""
        before = self._known.unread
        new: UnreadKind = "awaited" if self._shows_new else "older"
        unread = {
            url: _kind(seen, before.get(url, new))
            for url, seen in self.others.items()
            if seen.is_of_site or url in self._removed
        }
        unseen = {} if self.sees_unlinked else before
        known = {*self.read, *self.kept}
        return {url: kind for url, kind in {**unseen, **unread}.items() if url not in known}

    # Changes

    def changes_of_read_pages(self) -> Iterator[PageChange]:
        """Yield the changes of pages that were read, in the order of the crawl."""
        for url, page in self.read.items():
            old = self._known.pages.get(url)
            if old is None:
                for field_name in _present(page) if self.is_new(url) else ():
                    quote = page.quotes.get(field_name or "")
                    yield self._change(url, field_name, None, page, quote)
                continue
            if old.content_hash is not None and old.content_hash == page.content_hash:
                continue  # the same page, even if another release reads it differently
            for name, value in page.values.items():
                if name in old.values and old.values[name] != value:
                    evidence = page.quotes.get(name) or changed_text(old.values[name], value)
                    yield self._change(url, name, old, page, evidence)

    def removals(self) -> Iterator[PageChange]:
        """Yield the removed pages, in the order in which they were found."""
        for url, reason in self._removed.items():
            page = self._known.pages[url]
            for name in _present(page):
                yield self._change(url, name, page, None, reason)

    def _change(
        self,
        url: str,
        name: str | None,
        old: PageVersion | None,
        new: PageVersion | None,
        evidence: str | None,
    ) -> PageChange:
        known, visit = self._known, self._visit
        return PageChange(
            change_kind(old, new),
            url,
            name,
            None if old is None else old.values.get(name or ""),
            None if new is None else new.values.get(name or ""),
            evidence,
            old.fetched_at if old else known.at,
            new.fetched_at if new else visit.at,
            None if old is None else old.content_hash,
            None if new is None else new.content_hash,
            old.job_id if old else known.job_id,
            visit.job_id,
        )


def _by_known_url(known: KnownSite, visit: SiteVisit) -> dict[str, PageVersion]:
    """Return the pages of a crawl by the URLs under which earlier crawls know them.

    The target of a redirect may be a row under either URL, depending on which link comes first.
    """
    urls = {
        page.url: next((url for url in (page.final_url, page.url) if url in known.pages), None)
        for page in visit.pages
    }
    taken = set(urls.values())
    by_target = {page.final_url: url for url, page in reversed(list(known.pages.items()))}
    pages: dict[str, PageVersion] = {}
    for page in visit.pages:
        target = by_target.get(page.final_url)
        url = urls[page.url] or (page.url if target is None or target in taken else target)
        pages.setdefault(page.url if url in pages else url, page)
    return pages


def _present(page: PageVersion) -> list[str | None]:
    """Return the fields that have a value; one without a name if none has."""
    return [name for name, value in page.values.items() if value is not None] or [None]


_FIRST: Final = "first crawl: there is nothing to compare with"


def watch_receipt(
    crawl: Mapping[str, Any],
    known: KnownSite | None,
    comparison: Comparison | None,
    file: Path | None,
) -> dict[str, Any]:
    """Return the receipt of a call.

    Parameters
    ----------
    crawl
        The receipt of its crawl.
    known, comparison
        What was known before, and the comparison with it; None for the first crawl.
    file
        The file of changes, if any.
    """
    text = _FIRST
    counts: dict[str, int] = {}
    if known is not None and comparison is not None:
        for kind in CHANGE_KINDS:
            counts[kind] = len({each.url for each in comparison.changes if each.change == kind})
        counts |= {"kept": comparison.kept, "first_read": comparison.first_read}
        changed = [
            f"{counted(counts[kind], 'page')} {kind}" for kind in CHANGE_KINDS if counts[kind]
        ]
        parts = changed or ["no change"]
        if comparison.kept:
            parts.append(f"{comparison.kept} not read, which keep their values")
        if comparison.first_read:
            parts.append(f"{comparison.first_read} read for the first time")
        if not comparison.sees_unlinked:
            parts.append("pages that were not seen may be removed or not")
        text = f"{', '.join(parts)} since {known.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return {
        **crawl,
        "kind": "changes",
        "counts": {"rows": 0 if comparison is None else len(comparison.changes)},
        "changes": {
            "since": known and known.at.isoformat(),
            "since_job": known and known.job_id,
            "pages": counts,
        },
        "file": None if file is None else str(file),
        "line": f"watch {shorten(str(crawl.get('subject')))}: {text}; {crawl.get('line')}",
    }
