"""A site whose pages change, with validators that are right, wrong or absent."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Final, Literal

from aiohttp import web

from tests.site.server import Site

Validator = Literal["etag", "weak", "modified", "both", "none"]
VALIDATORS: Final[tuple[Validator, ...]] = ("etag", "weak", "modified", "both", "none")
_DATES: Final = "Mon, {:02} Jan 2024 00:00:00 GMT"
WORDS: Final = 120


@dataclass(slots=True)
class VersionedPage:
    """One page: its HTML, the version that its validators name, and how it is validated."""

    html: str
    validator: Validator = "etag"
    version: int = 1
    etag_of: str = ""
    full_replies: int = 0
    unchanged_replies: int = 0

    def headers(self) -> dict[str, str]:
        """Return the validators of the page."""
        digest = hashlib.sha256(self.etag_of.encode()).hexdigest()[:16]
        etags = {"etag": f'"{digest}"', "weak": f'W/"{digest}"', "both": f'"{digest}"'}
        headers = {"ETag": etags[self.validator]} if self.validator in etags else {}
        if self.validator in {"modified", "both"}:
            headers["Last-Modified"] = _DATES.format(self.version)
        return headers


@dataclass(slots=True)
class VersionedSite:
    """The pages of a site by their paths. Its server answers conditional requests."""

    site: Site
    pages: dict[str, VersionedPage] = field(default_factory=dict)

    def add(self, path: str, html: str, validator: Validator = "etag") -> None:
        """Add a page."""
        page = self.pages[path] = VersionedPage(html, validator, etag_of=html)

        def answer(request: web.BaseRequest) -> web.Response:
            headers = page.headers()
            etag, modified = headers.get("ETag"), headers.get("Last-Modified")
            request_etag = request.headers.get("If-None-Match")
            request_time = request.headers.get("If-Modified-Since")
            is_same = request_etag == etag if request_etag else bool(request_time == modified)
            if (request_etag or request_time) and is_same:
                page.unchanged_replies += 1
                return web.Response(status=304, headers=headers)
            page.full_replies += 1
            return web.Response(text=page.html, content_type="text/html", headers=headers)

        self.site.page(path, answer)

    def change(self, path: str, html: str, *, honest: bool = True) -> None:
        """Change a page; its validators stay the same if the server is not `honest`."""
        page = self.pages[path]
        page.html = html
        if honest:
            page.version, page.etag_of = page.version + 1, html

    def reset_counts(self) -> None:
        """Count replies from zero."""
        for page in self.pages.values():
            page.full_replies = page.unchanged_replies = 0

    @property
    def full_replies(self) -> int:
        """The number of pages that were sent whole."""
        return sum(page.full_replies for page in self.pages.values())

    @property
    def unchanged_replies(self) -> int:
        """The number of replies 304."""
        return sum(page.unchanged_replies for page in self.pages.values())


def text_page(number: int, *links: str, words: str = "word") -> str:
    """Return a page with a text of its own."""
    chance = random.Random(f"{words} {number}")
    # Texts that differ in their numbers alone would be a trap.
    text = " ".join("".join(chance.choices(ascii_lowercase, k=7)) for _ in range(WORDS))
    anchors = " ".join(f'<a href="{link}">to {link}</a>' for link in links)
    title = f"{words.title()} page {number}"
    return f"<title>{title}</title><h1>{title}</h1><p>{text}</p><p>{anchors}</p>"


def varied_site(site: Site, count: int = 40) -> VersionedSite:
    """Return a site with all kinds of validators, duplicates, redirects and failures."""
    versions = VersionedSite(site)
    for number in range(count):
        links = [f"/p{2 * number + 1}", f"/p{2 * number + 2}", "/"]
        links += ["/missing", "/moved"] if number == 1 else []
        links += ["/same", "https://elsewhere.test/"] if number == 2 else []
        path = "/" if number == 0 else f"/p{number}"
        existing = [link for link in links if not _is_beyond(link, count)]
        versions.add(path, text_page(number, *existing), VALIDATORS[number % len(VALIDATORS)])
    versions.add("/same", versions.pages["/p5"].html)
    versions.add("/target", text_page(1000, "/p3"), "both")
    site.redirect("/moved", "/target")
    return versions


def _is_beyond(link: str, count: int) -> bool:
    return link.startswith("/p") and int(link[2:]) >= count
