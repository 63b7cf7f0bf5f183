"""Checks what every page of four documentation sites must have in Markdown.

The sites are packages of Debian that others wrote, by three generators: Sphinx (Python, Django),
DocBook (PostgreSQL) and XSLT (Apache)::

    apt-get install python3-doc python-django-doc postgresql-doc apache2-doc
    python -m benchmarks.documentation_sites [--misses] [NAME or FOLDER ...]

The invariants, for the main content of each page:

- its first heading is the first `h1` of the page that does not repeat on other pages, or the
  `title` of a page whose `h1` are sections;
- the text of every `pre` of the page is a code block, character by character;
- nothing above the first heading is navigation: a line, a list or a table of links.

`tests/quality/test_documentation_sites.py` checks a sample of the pages. The rules were written
with these sites; others, by asciidoctor and by hand, show what they do elsewhere::

    apt-get install git-doc python-sqlalchemy-doc sqlite3-doc
    python -m benchmarks.documentation_sites --misses /usr/share/doc/git-doc

The truth is computed from the page by `html.parser` of the standard library, which the package does
not use.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from mdit_py_plugins.footnote import footnote_plugin

from tests.requirements import find
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape

SITES: Final = ("python", "django", "postgresql", "apache")
_LINK: Final = re.compile(r"\[[^\]]*\]\([^)]*\)")
REPEATED: Final = 3
"""An `h1` on more pages names the site or a part of it."""


class _Truth(HTMLParser):
    """The title of a page and the texts of its `h1` and `pre` elements."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.headings: list[str] = []
        self.code: list[str] = []
        self._open: list[tuple[str, list[str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"h1", "pre", "title"}:
            self._open.append((tag, []))
        elif self._open:
            classes = (dict(attrs).get("class") or "").split()
            if "headerlink" in classes:  # the generator's link to the section
                self._open.append(("a", []))
            elif tag == "br":
                self.handle_data("\n")

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            name, texts = self._open.pop()
            if name == "h1":
                self.headings.append(" ".join("".join(texts).split()))
            elif name == "title":
                self.title = self.title or " ".join("".join(texts).split())
            elif name == "pre":
                self.code.append("".join(texts))

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1][1].append(data)


@dataclass(slots=True)
class Checked:
    """The pages of a site that break an invariant, by its name."""

    pages: int = 0
    misses: dict[str, list[str]] = field(default_factory=dict)

    def miss(self, invariant: str, page: str, what: str) -> None:
        """Record a page that breaks an invariant."""
        self.misses.setdefault(invariant, []).append(f"{page}: {what[:100]!r}")


def read_truth(html: str) -> _Truth:
    """Return the headings and the code of a page."""
    truth = _Truth()
    truth.feed(html)
    truth.close()
    return truth


def blocks_of(markdown: str) -> tuple[str | None, list[str], str]:
    """Return the first heading, the code blocks, and the type of the first block."""
    parser = MarkdownIt("gfm-like", {"linkify": False}).use(footnote_plugin)
    tokens = parser.parse(markdown)
    heading = next(
        (
            _words("".join(child.content for child in (tokens[at + 1].children or ())))
            for at, token in enumerate(tokens)
            if token.type == "heading_open"
        ),
        None,
    )
    code = [token.content for token in tokens if token.type in {"fence", "code_block"}]
    return heading, code, tokens[0].type if tokens else ""


def begins_with_navigation(markdown: str) -> bool:
    """Return whether a block above the first heading is a list, a table or a line of links."""
    blocks = re.split(r"\n\n+", markdown.strip())
    first = next((at for at, block in enumerate(blocks) if block.startswith("#")), 1)
    return any(map(_is_navigation, blocks[:first]))


def _is_navigation(block: str) -> bool:
    links = _LINK.findall(block)
    rest = re.sub(r"[\W_]", "", _LINK.sub("", block))
    return bool(links) and len(rest) < sum(map(len, links)) / 4


def _words(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip()


def _code(text: str) -> str:
    """Return code without the line breaks around it, which no reader sees."""
    return text.strip("\n").rstrip()


def check_site(folder: Path, every: int = 1) -> Checked:
    """Check the pages of a site, or one of `every` so many."""
    files = sorted(path for path in folder.rglob("*") if re.search(r"\.html(\.en)?$", path.name))
    files = [path for path in files if path.is_file() and not path.is_symlink()]
    pages = {path: path.read_text("utf-8", "replace") for path in files}
    truths = {path: read_truth(html) for path, html in pages.items()}
    counts = Counter(name for truth in truths.values() for name in set(truth.headings))
    titles = Counter(truth.title for truth in truths.values())
    checked = Checked()
    for path, html in islice(pages.items(), 0, None, every):
        name = path.relative_to(folder).as_posix()
        url = f"http://docs.test/{name}"
        source = FetchedResponse(url, url, 200, "text/html", html.encode(), (), datetime.now(UTC))
        options = ConversionOptions(("markdown",), only_main_content=True)
        markdown = str(scrape(source, options).formats["markdown"])
        checked.pages += 1
        heading, code, _ = blocks_of(markdown)
        title = truths[path].title if titles[truths[path].title] <= REPEATED else ""
        own = [text for text in truths[path].headings if counts[text] <= REPEATED]
        if own and heading not in {_words(own[0]), _words(title)}:
            checked.miss("heading", name, f"{heading} instead of {own[0]}")
        lost = Counter(filter(None, map(_code, truths[path].code)))
        lost.subtract(map(_code, code))
        for text in (+lost).elements():
            checked.miss("code", name, text)
        if begins_with_navigation(markdown):
            checked.miss("navigation", name, markdown)
    return checked


def find_sites() -> dict[str, Path]:
    """Return the folders of the sites that are installed."""
    folders = {name: find(f"{name}-docs") for name in SITES}
    return {name: folder for name, folder in folders.items() if folder is not None}


def main() -> int:
    """Print the figures; return 1 if an invariant is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sites", nargs="*", help=f"{', '.join(SITES)}, or a folder; default: all")
    parser.add_argument("--misses", action="store_true", help="list what breaks an invariant")
    arguments = parser.parse_args()
    found, broken = find_sites(), 0
    for name in arguments.sites or SITES:
        folder = found.get(name, Path(name))
        if not folder.is_dir():
            sys.exit(f"{name} is neither a folder nor an installed site: {', '.join(found)}")
        checked = check_site(folder)
        figures = ", ".join(
            f"{invariant} {len(checked.misses.get(invariant, ()))}"
            for invariant in ("heading", "code", "navigation")
        )
        broken += sum(map(len, checked.misses.values()))
        print(f"{name}: {checked.pages} pages; broken: {figures}")
        if arguments.misses:
            for invariant, pages in checked.misses.items():
                print(*(f"    {invariant} {page}" for page in pages), sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
