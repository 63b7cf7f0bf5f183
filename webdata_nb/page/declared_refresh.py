"""Reads the redirects that pages declare: the header `Refresh` and ``meta http-equiv=refresh``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import turbohtml

from webdata_nb.page.urls import join_url

if TYPE_CHECKING:
    from turbohtml import Element

MAX_DELAY_S: Final = 5
"""A longer refresh is for readers, and the page before it is one of its own."""

_SEARCHED_BYTES: Final = 64 * 1024
_MARK: Final = re.compile(rb"http-equiv\s*=\s*[\"']?\s*refresh")
# The "shared declarative refresh steps" of the HTML standard.
_VALUE: Final = re.compile(
    r"\s*(?P<delay>\d{1,9})?(?:\.[\d.]*)?(?:\s*[;,]\s*|\s+)"
    r"(?:url\s*=\s*)?(?:\"(?P<double>[^\"]*)|'(?P<single>[^']*)|(?P<bare>.*))",
    re.IGNORECASE | re.DOTALL,
)
_LINE_BREAKS: Final = re.compile(r"[\t\n\r]")


@dataclass(frozen=True, slots=True)
class Refresh:
    """A declared redirect: seconds until it happens, and the URL as written."""

    delay_s: int
    url: str


def parse_refresh(value: str) -> Refresh | None:
    """Parse the value of a refresh; None for one that reloads the page, and for an invalid one.

    Examples
    --------
    >>> parse_refresh("5; URL='/next'")
    Refresh(delay_s=5, url='/next')
    >>> parse_refresh("30") is None
    True
    """
    match = _VALUE.match(value)
    if match is None or (match["delay"] is None and not value.lstrip().startswith(".")):
        return None
    written = next((match[name] for name in ("double", "single", "bare") if match[name]), "")
    url = _LINE_BREAKS.sub("", written).strip()
    return Refresh(int(match["delay"] or 0), url) if url else None


def refresh_target(url: str, header: str | None, body: bytes) -> str | None:
    """Return where a page redirects to within a few seconds; None for one that stays.

    Parameters
    ----------
    url
        The URL of the page.
    header
        Its header `Refresh`.
    body
        Its body, of which the first 64 KiB are read. A refresh in a ``noscript`` counts if the page
        has no text: a page with text is what a reader without scripts should see.
    """
    refresh = parse_refresh(header) if header else None
    base = url
    if refresh is None:
        begin = body[:_SEARCHED_BYTES]
        # An expression that ignores case takes five times as long to find nothing.
        if b"http-equiv" in (lowered := begin.lower()) and _MARK.search(lowered) is not None:
            document = turbohtml.parse(begin)
            base_element = document.select_one("base[href]")
            href = base_element.attr("href") if base_element is not None else None
            base = (join_url(url, href) if href else None) or url
            for element in document.select("meta[http-equiv=refresh i]"):
                declared = parse_refresh(element.attr("content") or "")
                if declared is not None and (
                    element.closest("noscript") is None or not _has_text(document)
                ):
                    refresh = declared
                    break
    if refresh is None or refresh.delay_s > MAX_DELAY_S:
        return None
    target = join_url(base, refresh.url)
    is_reload = target is None or target.partition("#")[0] == url.partition("#")[0]
    return None if is_reload else target


def _has_text(document: turbohtml.Document) -> bool:
    """Return whether a page shows text without its scripts and notices about them."""
    body = document.select_one("body")
    if body is None:
        return False
    hidden: list[Element] = body.select("script,style,template,noscript")
    return len("".join(body.text.split())) > sum(
        len("".join(element.text.split())) for element in hidden
    )
