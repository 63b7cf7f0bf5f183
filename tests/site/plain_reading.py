"""Reads what an audit compares from HTML with Python's own parser, independently of the service."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Final
from urllib.parse import quote, urldefrag, urljoin, urlsplit, urlunsplit

_TEXTS: Final = frozenset({"title", "h1"})


class PlainPage(HTMLParser):
    """The declarations and links of one page.

    Attributes
    ----------
    titles, h1s, descriptions, canonicals
        Their texts, or targets, in document order.
    links
        Absolute URLs of other pages, each once, without fragment.
    texts
        For each of them, whether any link to it has a text or an alternative text.
    nofollow
        Those whose first link has `rel=nofollow`.
    robots, json_ld, refresh
        Contents of `meta name=robots`, of JSON-LD blocks and of `meta http-equiv=refresh`.
    words, unlinked_words
        All words of the page, without scripts and styles, and the number of those in no link.
    """

    def __init__(self, url: str, html: str) -> None:
        super().__init__()
        self.url, self.size = url, len(html.encode())
        self._base: str | None = None
        self.titles: list[str] = []
        self.h1s: list[str] = []
        self.descriptions: list[str] = []
        self.canonicals: list[str] = []
        self.language: str | None = None
        self.viewport: str | None = None
        self.images_without_alt = 0
        self.texts: dict[str, bool] = {}
        self.nofollow: list[str] = []
        self.robots: list[str] = []
        self.json_ld: list[str] = []
        self.refresh: str | None = None
        self.words: list[str] = []
        self.unlinked_words = 0
        self._is_in_anchor = False
        self._script: str | None = None
        self._link: str | None = None
        self._open: str | None = None
        self._svg_depth = 0
        self.feed(html)
        self.close()

    @property
    def links(self) -> list[str]:
        return list(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        rel = (values.get("rel") or "").lower().split()
        if tag in {"script", "style"}:
            self._open_script(values)
        elif tag == "svg":
            self._svg_depth += 1
        elif tag in _TEXTS and not self._svg_depth:
            self._open = tag
            self._list_of(tag).append("")
        elif tag in {"html", "base"}:
            self._read_root(tag, values)
        elif tag == "meta":
            self._read_meta(values)
        elif tag == "link" and "canonical" in rel:
            self.canonicals.append(self._absolute(values.get("href") or ""))
        elif tag == "img":
            self._read_image(values)
        elif tag in {"a", "area"} and values.get("href") is not None:
            self._is_in_anchor = tag == "a"
            self._read_link(values["href"] or "", is_nofollow="nofollow" in rel)
            self._add_text(values.get("aria-label") or values.get("title") or "")
            if tag == "area":
                self._add_text(values.get("alt") or "")
                self._link = None

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style"}:
            self._script = None
        elif tag == "svg":
            self._svg_depth -= 1
        elif tag == self._open:
            self._open = None
        elif tag == "a":
            self._link, self._is_in_anchor = None, False

    def handle_data(self, data: str) -> None:
        is_permalink = self._is_in_anchor and data.strip() == "¶"  # to the section itself
        if self._open is not None and not is_permalink:
            self._list_of(self._open)[-1] += data
        self._add_text(data)
        if self._script == "json":
            self.json_ld[-1] += data
        elif self._script is None:
            self.words += data.split()
            self.unlinked_words += 0 if self._is_in_anchor else len(data.split())

    def _open_script(self, values: Mapping[str, str | None]) -> None:
        is_json = values.get("type") == "application/ld+json"
        self._script = "json" if is_json else "other"
        self.json_ld += [""] * is_json

    def _read_root(self, tag: str, values: Mapping[str, str | None]) -> None:
        if tag == "html":
            self.language = values.get("lang")
        else:
            self._base = self._base or urljoin(self.url, values.get("href") or "")

    def _read_meta(self, values: Mapping[str, str | None]) -> None:
        content, name = values.get("content") or "", (values.get("name") or "").lower()
        if name == "description":
            self.descriptions.append(_collapsed(content))
        elif name == "viewport" and self.viewport is None:
            self.viewport = values.get("content")
        elif name == "robots":
            self.robots.append(content)
        elif (values.get("http-equiv") or "").lower() == "refresh":
            self.refresh = values.get("content")

    def _list_of(self, tag: str) -> list[str]:
        return self.titles if tag == "title" else self.h1s

    def _read_image(self, values: dict[str, str | None]) -> None:
        is_hidden = values.get("role") in {"presentation", "none"}
        if "alt" not in values and not is_hidden and values.get("aria-hidden") != "true":
            self.images_without_alt += 1
        self._add_text(values.get("alt") or "")

    def _read_link(self, href: str, *, is_nofollow: bool) -> None:
        self._link = None
        if href and not href.startswith("#"):
            url = urldefrag(self._absolute(href))[0]
            if url.startswith(("http://", "https://")):
                self._link = url
                if is_nofollow and url not in self.texts:
                    self.nofollow.append(url)
                self.texts.setdefault(url, False)

    def _absolute(self, href: str) -> str:
        # Browsers read a backslash as a slash (URL standard).
        parts = urlsplit(urljoin(self._base or self.url, href.strip().replace("\\", "/")))
        parts = parts._replace(path=parts.path or "/", netloc=parts.netloc.lower())
        return quote(urlunsplit(parts), safe="/:?#[]@!$&'()*+,;=%~")

    def _add_text(self, text: str) -> None:
        if self._link is not None and text.strip():
            self.texts[self._link] = True


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def first_text(texts: list[str]) -> str:
    """Return the first of some texts, with collapsed white space."""
    return _collapsed(texts[0]) if texts else ""
