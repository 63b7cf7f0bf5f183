"""Decides which formats a page needs, and whether a browser.

The options of a request decide, and the fetched bytes, which show whether a page is empty until its
scripts have run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from webdata_nb.contract.requests import FormatOptions, MarkdownMode
from webdata_nb.service.browser.render_request import ScreenshotRequest

_TAG: Final = re.compile(rb"</?([a-z][a-z0-9-]{0,30})")
_ENTITY: Final = re.compile(rb"&#?[0-9a-z]{1,12};")
_SIGNIFICANT: Final = re.compile(rb"[0-9a-z\x80-\xff]")
# An element that scripts fill: <div id="root"></div>, or a framework's own <app-root></app-root>.
_EMPTY_ROOT: Final = re.compile(
    rb"<(?:(?:div|main|section)\b[^<>]{0,300}\bid=[^<>]{1,300}>\s{0,200}</(?:div|main|section)"
    rb"|([a-z]{1,20}-[a-z0-9-]{1,40})\b[^<>]{0,300}>\s{0,200}</\1)"
)
_SKIPPED: Final = frozenset({b"script", b"style", b"template", b"title", b"svg"})
_IMAGE_TAGS: Final = frozenset({b"img", b"picture", b"video", b"object", b"embed"})
_FEW_LETTERS: Final = 100
_ENOUGH_LETTERS: Final = 400
_MAX_TAGS: Final = 20_000
_NOTICE_BYTES: Final = 1000


@dataclass(slots=True)
class _ContentCounts:
    """Counts of visible letters and digits, tags, scripts and images, and a JavaScript notice."""

    letters: int = 0
    tags: int = 0
    scripts: int = 0
    images: int = 0
    notice: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether the page has enough content not to be empty."""
        return self.letters >= _ENOUGH_LETTERS or self.tags >= _MAX_TAGS


def is_empty_without_javascript(html: bytes) -> bool:
    """Return whether a page has almost no text until its scripts have run.

    True for a page with scripts and little text when there is hardly any text at all, an empty
    element for scripts to fill, or a notice in ``<noscript>`` that asks for JavaScript. What
    ``<noscript>`` says counts as text.

    Parameters
    ----------
    html : bytes
        The document as fetched, in any encoding that writes tags as ASCII does.

    Examples
    --------
    >>> is_empty_without_javascript(b'<div id="root"></div><script src="app.js"></script>')
    True
    >>> is_empty_without_javascript(b"<h1>Hello</h1>")
    False
    """
    page = html.lower()
    counts = _count_content(page)
    if counts.is_certain or not counts.scripts:
        return False
    if counts.notice or _EMPTY_ROOT.search(page):
        return True
    return counts.letters < _FEW_LETTERS and not counts.images


def _count_content(page: bytes) -> _ContentCounts:
    """Scan the tags until the result is certain."""
    counts, at = _ContentCounts(), 0
    while not counts.is_certain:
        tag = page.find(b"<", at)
        counts.letters += _letters(page[at : tag if tag >= 0 else len(page)])
        if tag < 0:
            break
        at = _count_tag(page, tag, counts)
        if at < 0:
            break
    return counts


def _count_tag(page: bytes, tag: int, counts: _ContentCounts) -> int:
    """Count a tag and return the position behind it; -1 where it is not closed."""
    counts.tags += 1
    if page.startswith(b"<!--", tag):
        end = page.find(b"-->", tag)
        return end + 3 if end >= 0 else -1
    match = _TAG.match(page, tag)
    if match is None:
        return tag + 1
    name, closes = match[1], page[tag + 1] == ord("/")
    counts.images += name in _IMAGE_TAGS
    counts.notice = counts.notice or (name == b"noscript" and not closes and _is_notice(page, tag))
    if closes or name not in _SKIPPED:
        return page.find(b">", tag) + 1 or -1
    end = page.find(b"</" + name, tag)
    counts.scripts += name == b"script"
    return end


def _is_notice(page: bytes, tag: int) -> bool:
    end = page.find(b"</noscript", tag, tag + _NOTICE_BYTES)
    return end >= 0 and page.find(b"javascript", tag, end) >= 0


def _letters(text: bytes) -> int:
    if not text or text.isspace():
        return 0
    return len(_SIGNIFICANT.findall(_ENTITY.sub(b"", text)))


SCREENSHOT = "screenshot"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How a browser renders a page; the defaults need no browser.

    `wait_for` is milliseconds or a CSS selector. `render` "auto" decides by the page's content,
    and False never uses a browser.
    """

    render: bool | Literal["auto"] | None = None
    wait_for: int | str | None = None
    mobile: bool = False
    mobile_device: str | None = None
    screenshot: ScreenshotRequest | None = None

    @property
    def is_mobile(self) -> bool:
        """Whether the page is requested as by a mobile device."""
        return self.mobile or self.mobile_device is not None

    def needs_browser(self, html: bytes) -> bool:
        """Return whether a browser must load the page."""
        if self.render is False:
            return False
        if self.render is True or self.wait_for is not None or self.is_mobile or self.screenshot:
            return True
        return self.render == "auto" and is_empty_without_javascript(html)


def render_options(
    formats: tuple[str, ...],
    options: FormatOptions | None,
    *,
    mobile: bool | None,
    mobile_device: str | None,
    wait_for: int | str | None = None,
    render: bool | Literal["auto"] | None = None,
) -> RenderOptions:
    """Return the render options of a request."""
    screenshot_options = None if options is None else options.screenshot
    shot = None
    if SCREENSHOT in formats:
        shot = ScreenshotRequest()
        if screenshot_options is not None:
            shot = ScreenshotRequest(
                full_page=bool(screenshot_options.full_page)
                or screenshot_options.capture == "full_page",
                width=screenshot_options.width,
                height=screenshot_options.height,
            )
    return RenderOptions(render, wait_for, bool(mobile), mobile_device, shot)


def page_formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Return the formats that are made from the page's text: all but screenshots."""
    return tuple(name for name in formats if name != SCREENSHOT)


def markdown_mode(options: FormatOptions | None) -> MarkdownMode | None:
    """Return which content Markdown covers, where the request sets it for Markdown alone."""
    if options is None or options.markdown is None:
        return None
    return options.markdown.mode
