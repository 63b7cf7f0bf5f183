"""Whether a page is worth reading without its scripts: a cheap look at the bytes as fetched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TAG: Final = re.compile(rb"</?([a-z][a-z0-9-]{0,30})")
_ENTITY: Final = re.compile(rb"&#?[0-9a-z]{1,12};")
_SIGNIFICANT: Final = re.compile(rb"[0-9a-z\x80-\xff]")
# An element that scripts fill: <div id="root"></div>, or a framework's own <app-root></app-root>.
_EMPTY_ROOT: Final = re.compile(
    rb"<(?:(?:div|main|section)\b[^<>]{0,300}\bid=[^<>]{1,300}>\s{0,200}</(?:div|main|section)"
    rb"|([a-z]{1,20}-[a-z0-9-]{1,40})\b[^<>]{0,300}>\s{0,200}</\1)"
)
_SKIPPED: Final = frozenset({b"script", b"style", b"template", b"title", b"svg"})
_PICTURES: Final = frozenset({b"img", b"picture", b"video", b"object", b"embed"})
_HARDLY_ANY: Final = 100
_LITTLE: Final = 400
_MOST_TAGS: Final = 20_000
_NOTICE_BYTES: Final = 1000


@dataclass(slots=True)
class _Look:
    """What was seen: letters and digits a reader would see, tags, scripts, pictures, a notice."""

    letters: int = 0
    tags: int = 0
    scripts: int = 0
    pictures: int = 0
    notice: bool = False

    @property
    def decided(self) -> bool:
        """Whether there is so much that the page is no empty one."""
        return self.letters >= _LITTLE or self.tags >= _MOST_TAGS


def is_empty_without_javascript(html: bytes) -> bool:
    """Tell whether a page has next to nothing to read until its scripts have run.

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
    look = _look_over(page)
    if look.decided or not look.scripts:
        return False
    if look.notice or _EMPTY_ROOT.search(page):
        return True
    return look.letters < _HARDLY_ANY and not look.pictures


def _look_over(page: bytes) -> _Look:
    """Go through the tags once, until it is decided."""
    look, at = _Look(), 0
    while not look.decided:
        tag = page.find(b"<", at)
        look.letters += _letters(page[at : tag if tag >= 0 else len(page)])
        if tag < 0:
            break
        at = _after(page, tag, look)
        if at < 0:
            break
    return look


def _after(page: bytes, tag: int, look: _Look) -> int:
    """Return where reading goes on after a tag; -1 where nothing closes it."""
    look.tags += 1
    if page.startswith(b"<!--", tag):
        end = page.find(b"-->", tag)
        return end + 3 if end >= 0 else -1
    match = _TAG.match(page, tag)
    if match is None:
        return tag + 1
    name, closes = match[1], page[tag + 1] == ord("/")
    look.pictures += name in _PICTURES
    look.notice = look.notice or (name == b"noscript" and not closes and _is_notice(page, tag))
    if closes or name not in _SKIPPED:
        return page.find(b">", tag) + 1 or -1
    end = page.find(b"</" + name, tag)
    look.scripts += name == b"script"
    return end


def _is_notice(page: bytes, tag: int) -> bool:
    end = page.find(b"</noscript", tag, tag + _NOTICE_BYTES)
    return end >= 0 and page.find(b"javascript", tag, end) >= 0


def _letters(text: bytes) -> int:
    if not text or text.isspace():
        return 0
    return len(_SIGNIFICANT.findall(_ENTITY.sub(b"", text)))
