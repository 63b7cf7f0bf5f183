"""Finds missing, duplicate, too short and too long titles, descriptions, headings and contents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from webdata_nb.toolkit.frames.audit.kinds import (
    DESCRIPTION_LENGTH,
    H1_LENGTH,
    MAX_BYTES,
    MAX_SECONDS,
    MIN_WORDS,
    TITLE_LENGTH,
)
from webdata_nb.toolkit.frames.audit.pages import AuditPage
from webdata_nb.toolkit.frames.audit.site import AuditFinding, AuditSite, Findings, of_page


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that each page should have once: its name in issues and facts, and its length."""

    name: str
    fact: str
    length: tuple[int, int]


_TEXTS: Final = (
    _Text("title", "titles", TITLE_LENGTH),
    _Text("description", "descriptions", DESCRIPTION_LENGTH),
    _Text("h1", "h1s", H1_LENGTH),
)


def check_texts(site: AuditSite) -> Findings:
    """Return findings about titles, descriptions and headings."""
    for text in _TEXTS:
        for page in site.html_pages():
            yield from _check_text(page, text)
        yield from _duplicates(site, text)


def _check_text(page: AuditPage, text: _Text) -> Iterator[AuditFinding]:
    found = page.texts(text.fact)
    if len(found) > 1:
        yield of_page(f"multiple_{text.name}{_plural(text)}", page, found[1], count=len(found))
    first = found[0] if found else ""
    shortest, longest = text.length
    if not first:
        yield of_page(f"missing_{text.name}", page)
    elif len(first) < shortest:
        yield of_page(f"short_{text.name}", page, f"{len(first)} characters: {first}")
    elif len(first) > longest:
        yield of_page(f"long_{text.name}", page, f"{len(first)} characters: {first}")


def _plural(text: _Text) -> str:
    return "" if text.name == "h1" else "s"


def _duplicates(site: AuditSite, text: _Text) -> Iterator[AuditFinding]:
    """Yield the indexable pages that share a text; case does not matter."""
    pages_by_text: defaultdict[str, list[AuditPage]] = defaultdict(list)
    for page in site.html_pages():
        first = next(iter(page.texts(text.fact)), "")
        if first and page.indexable:
            pages_by_text[first.casefold()].append(page)
    for pages in pages_by_text.values():
        if len(pages) > 1:
            for page in pages:
                evidence = page.texts(text.fact)[0]
                yield of_page(f"duplicate_{text.name}", page, evidence, count=len(pages))


def check_contents(site: AuditSite) -> Findings:
    """Return findings about the contents of pages, and their speed and size."""
    for page in site.html_pages():
        yield from _check_content(page)
        yield from _check_elements(page)
    yield from _near_duplicates(site)


def _check_content(page: AuditPage) -> Iterator[AuditFinding]:
    if page.words is not None and page.words < MIN_WORDS:
        yield of_page("thin_page", page, f"{page.words} words")
    if page.seconds is not None and page.seconds > MAX_SECONDS:
        yield of_page("slow_page", page, f"{page.seconds:.1f} s")
    size = page.declared.get("bytes", 0)
    if size > MAX_BYTES:
        yield of_page("heavy_page", page, f"{size:,} bytes")


def _check_elements(page: AuditPage) -> Iterator[AuditFinding]:
    if bare := page.declared.get("images_without_alt", 0):
        examples = page.texts("examples_without_alt")
        yield of_page("image_without_alt", page, next(iter(examples), ""), count=bare)
    if insecure := page.texts("insecure"):
        yield of_page("mixed_content", page, insecure[0], count=len(insecure))
    if errors := page.texts("structured_data_errors"):
        yield of_page("invalid_structured_data", page, errors[0], count=len(errors))
    if not page.declared.get("language"):
        yield of_page("missing_language", page)
    if page.declared.get("viewport") is None:
        yield of_page("missing_viewport", page)
    if (refresh := page.declared.get("refresh")) is not None:
        yield of_page("meta_refresh", page, refresh)


def _near_duplicates(site: AuditSite) -> Iterator[AuditFinding]:
    # Each crawl of several numbers its own clusters.
    pages_by_cluster: defaultdict[tuple[str, int], list[AuditPage]] = defaultdict(list)
    for page in site.html_pages():
        if page.cluster is not None and page.indexable:
            pages_by_cluster[page.start_url, page.cluster].append(page)
    for (_, cluster), pages in pages_by_cluster.items():
        if len(pages) > 1:
            for page in pages:
                other = pages[0] if page is not pages[0] else pages[1]
                evidence = f"cluster {cluster}, with {other.url}"
                yield of_page("near_duplicate", page, evidence, count=len(pages))
