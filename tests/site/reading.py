"""An independent reading of documentation files, to check a crawl of the same files against.

Nothing here comes from the package: html.parser reads the pages, urllib.parse resolves their
links, a plain queue decides the order, and markdown-it renders Markdown before its words are
read.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_WORD: Final = re.compile(r"\w+")
_SPACE: Final = " \t\n\r\f"
# Printable ASCII that the URL standard leaves alone in a path or query, "%" included.
_PLAIN: Final = "!$%&'()*+,-./:;=?@[\\]_|~"
_SILENT: Final = frozenset({"title", "script", "style", "template", "noscript", "svg"})
_INLINE: Final = frozenset(
    {
        *("a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i"),
        *("ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup"),
        *("time", "tt", "u", "var", "wbr"),
    }
)
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_KINDS: Final = {
    "css": "text/css",
    "gif": "image/gif",
    "html": "text/html",
    "js": "application/javascript",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "xml": "text/xml",
    "zip": "application/zip",
}


@dataclass(frozen=True, slots=True)
class PageReading:
    """What a reader sees on one page.

    `anchors` are the absolute URLs of its <a> elements with their fragments, in document order;
    `links` the http ones among them without fragments, each once. `words` are those of the body,
    `main_words` those of its main element (role=main or <main>), in order.
    """

    title: str
    anchors: tuple[str, ...]
    links: tuple[str, ...]
    headings: tuple[str, ...]
    words: tuple[str, ...]
    main_words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Visit:
    """One URL of a crawl: the status and type that a server gives, and its page where it is HTML.

    `media_type` is None for a file whose ending the server does not know, `digest` the SHA-256
    of the body; both are None where there is no file.
    """

    url: str
    depth: int
    status: int
    media_type: str | None = None
    digest: str | None = None
    page: PageReading | None = None


class Folder:
    """The files below `root` as the web that a server at `url` shows."""

    def __init__(self, root: Path, url: str) -> None:
        self._root, self._url = root, canonical(url)

    def file(self, url: str) -> Path | None:
        """Return the file behind a URL; a folder stands for its index.html."""
        if not url.startswith(self._url):
            return None
        path = unquote(urlsplit(url).path).lstrip("/")
        file = self._root / path
        if path.endswith("/") or not path:
            file /= "index.html"
        return file if file.is_file() else None

    def visit(self, url: str, depth: int = 0) -> Visit:
        """Read what is at a URL."""
        file = self.file(url)
        if file is None:
            return Visit(url, depth, 404)
        body = file.read_bytes()
        kind = _KINDS.get(file.suffix.removeprefix("."))
        digest = hashlib.sha256(body).hexdigest()
        page = read_html(body.decode(), url) if kind == "text/html" else None
        return Visit(url, depth, 200, kind, digest, page)

    def crawl(self, start: str, limit: int, *, max_depth: int = 10) -> tuple[Visit, ...]:
        """Return the first `limit` visits of a breadth-first crawl that stays on this site.

        Missing files are visits too (404). A file whose body was seen under another URL is not:
        its budget goes to the next URL, and its links are not followed.
        """
        visits: list[Visit] = []
        bodies: set[str] = set()
        for visit in self._walk(canonical(start), max_depth, bodies):
            if visit.digest not in bodies:
                visits.append(visit)
            if len(visits) == limit:
                break
        return tuple(visits)

    def _walk(self, start: str, max_depth: int, bodies: set[str]) -> Iterator[Visit]:
        waiting, known = deque([(start, 0)]), {start}
        while waiting:
            visit = self.visit(*waiting.popleft())
            yield visit
            if visit.digest is None or visit.digest in bodies:
                continue
            bodies.add(visit.digest)
            if visit.page is None or visit.depth == max_depth:
                continue
            for link in visit.page.links:
                if link.startswith(self._url) and link not in known:
                    known.add(link)
                    waiting.append((link, visit.depth + 1))


def canonical(url: str) -> str:
    """Return a URL as the URL standard writes it, as far as documentation pages need it."""
    parts = urlsplit(url)
    path = quote(parts.path or "/", safe=_PLAIN)
    query = quote(parts.query, safe=_PLAIN)
    written = parts._replace(netloc=parts.netloc.lower(), path=path, query=query)
    return written.geturl()


def read_html(text: str, url: str) -> PageReading:
    """Read one page that was found at `url`."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    base = urljoin(url, reader.base)
    anchors = tuple(filter(None, (_absolute(base, href) for href in reader.hrefs)))
    pages = (urldefrag(anchor).url for anchor in anchors if anchor.startswith("http"))
    return PageReading(
        title=" ".join("".join(reader.title).split()),
        anchors=anchors,
        links=tuple(dict.fromkeys(pages)),
        headings=tuple(" ".join(heading.split()) for heading in reader.headings),
        words=words("".join(reader.body)),
        main_words=words("".join(reader.main)),
    )


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text: runs of letters, digits and underscores."""
    return tuple(_WORD.findall(text))


def markdown_words(markdown: str) -> tuple[str, ...]:
    """Return the words that a reader of rendered Markdown sees, in order."""
    renderer = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return read_html(renderer.render(markdown), "http://localhost/").words


def recall(expected: Iterable[str], found: Iterable[str]) -> float:
    """Return the share of the expected words that were found, each as often as it is expected."""
    wanted = Counter(expected)
    return (wanted & Counter(found)).total() / max(1, wanted.total())


def _absolute(base: str, href: str) -> str | None:
    try:
        return canonical(urljoin(base, href.strip(_SPACE)))
    except ValueError:  # urllib's only answer to a malformed host
        return None


class _Reader(HTMLParser):
    """Collects text by where it stands; tags that are not inline part words."""

    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.title: list[str] = []
        self.hrefs: list[str] = []
        self.headings: list[str] = []
        self.body: list[str] = []
        self.main: list[str] = []
        self._silent: list[str] = []
        self._in_heading = False
        self._main_tag: str | None = None
        self._main_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag in _HEADINGS:
            self._in_heading = True
            self.headings.append("")
        elif tag == "a":
            self.hrefs.extend(value or "" for name, value in attrs if name == "href")
        elif tag == "base" and not self.base:
            self.base = dict(attrs).get("href") or ""
        self._enter_main(tag, attrs)
        self._part(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # In HTML the slash of <br/> means nothing; only foreign elements close themselves.
        if tag not in _SILENT:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._part(tag)
        if self._silent and tag == self._silent[-1]:
            self._silent.pop()
        elif tag in _HEADINGS:
            self._in_heading = False
        if tag == self._main_tag:
            self._main_depth -= 1
            if not self._main_depth:
                self._main_tag = None

    def handle_data(self, data: str) -> None:
        if self._silent:
            if self._silent == ["title"]:
                self.title.append(data)
            return
        self._write(data)
        if self._in_heading:
            self.headings[-1] += data

    def _enter_main(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._main_tag is None and (tag == "main" or ("role", "main") in attrs):
            self._main_tag = tag
        if tag == self._main_tag:
            self._main_depth += 1

    def _part(self, tag: str) -> None:
        if tag not in _INLINE:
            self._write("\n")

    def _write(self, text: str) -> None:
        self.body.append(text)
        if self._main_tag is not None:
            self.main.append(text)
