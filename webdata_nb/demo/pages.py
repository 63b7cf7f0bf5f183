"""Generates the reply of the sample web to each request target, without network access."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import parse_qsl, urlsplit

_ORIGIN: Final = "{{origin}}"
_REDIRECTS: Final = {"/articles/aurora.html": "/articles/reading-an-aurora-forecast.html"}
_FAILING_PATH: Final = "/instruments/anemometer-3.html"
_SHOP_PATH: Final = "/shop/"
_CARD: Final = re.compile(
    r'<li class="card" data-color="(?P<color>\w+)" data-price="(?P<price>[\d.]+)">'
    r".*?<h2><a [^>]*>(?P<name>.*?)</a></h2>.*?</li>\n",
    re.DOTALL,
)
_CARD_LIST: Final = re.compile(r"(?<=<!-- cards -->\n).*?(?=<!-- /cards -->)", re.DOTALL)
_CONTENT_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "xml": "application/xml",
}
# Charset and content type of pages in older charsets: one page names its charset only in the
# header, the other only in its <meta>.
_CHARSETS: Final = {
    "/archive/1931-logbook.html": ("windows-1252", "text/html; charset=windows-1252"),
    "/archive/letter-from-gdansk.html": ("iso-8859-2", "text/html"),
}


@dataclass(frozen=True, slots=True)
class SampleReply:
    """An HTTP reply; only a redirect has a `location`."""

    status: int
    content_type: str
    body: bytes
    location: str | None = None


class SampleWeb:
    """The pages of the sample web, with absolute addresses below `origin`.

    Parameters
    ----------
    origin
        Scheme, host and port of the server, for canonical addresses, the feed and the sitemap.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._files = dict(_read_files(resources.files(__package__) / "site", "/"))

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all files; the path of an index file is that of its directory."""
        return tuple(sorted(self._files))

    def reply(self, target: str) -> SampleReply:
        """Return the reply to a request target, such as ``/shop/?sort=price``."""
        parts = urlsplit(target)
        path = parts.path
        if path in self._files:
            return self._page(path, dict(parse_qsl(parts.query)))
        if path in _REDIRECTS:
            return _redirect(_REDIRECTS[path])
        if f"{path}/" in self._files:
            return _redirect(f"{path}/")
        if path == _FAILING_PATH:
            return _error_page(
                500, "Anemometer 3 does not answer", "It has been silent since March."
            )
        return _error_page(404, "No such page", "The wind may have taken it.")

    def _page(self, path: str, query: dict[str, str]) -> SampleReply:
        suffix = "html" if path.endswith("/") else path.rpartition(".")[2]
        charset, content_type = _CHARSETS.get(path, ("utf-8", _CONTENT_TYPES[suffix]))
        body = self._files[path]
        if suffix == "png":
            return SampleReply(200, content_type, body)
        text = body.decode().replace(_ORIGIN, self._origin)
        if path == _SHOP_PATH:
            text = _CARD_LIST.sub(lambda cards: _select_cards(cards[0], query), text)
        return SampleReply(200, content_type, text.encode(charset))


def _select_cards(cards: str, query: dict[str, str]) -> str:
    """Filter the cards by colour and sort them; other parameters have no effect."""
    color = query.get("color")
    selected = [card for card in _CARD.finditer(cards) if color in {None, card["color"]}]
    match query.get("sort"):
        case "price":
            selected.sort(key=lambda card: float(card["price"]))
        case "name":
            selected.sort(key=lambda card: card["name"])
    return "".join(card[0] for card in selected)


def _redirect(location: str) -> SampleReply:
    return SampleReply(301, _CONTENT_TYPES["txt"], b"Moved.\n", location)


def _error_page(status: int, title: str, text: str) -> SampleReply:
    html = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><title>{title}</title></head>\n'
        f'<body><h1>{title}</h1><p>{text} <a href="/">Back to the front page</a></p></body>\n'
        "</html>\n"
    )
    return SampleReply(status, _CONTENT_TYPES["html"], html.encode())


def _read_files(folder: Traversable, path: str) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            files += _read_files(entry, f"{path}{entry.name}/")
        else:
            files.append((path + entry.name.removesuffix("index.html"), entry.read_bytes()))
    return files
