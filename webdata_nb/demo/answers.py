"""What the sample web answers to each request target; no sockets here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import parse_qsl, urlsplit

_ORIGIN: Final = "{{origin}}"
_MOVED: Final = {"/articles/aurora.html": "/articles/reading-an-aurora-forecast.html"}
_FAILING: Final = "/instruments/anemometer-3.html"
_SHOP: Final = "/shop/"
_CARD: Final = re.compile(
    r'<li class="card" data-color="(?P<color>\w+)" data-price="(?P<price>[\d.]+)">'
    r".*?<h2><a [^>]*>(?P<name>.*?)</a></h2>.*?</li>\n",
    re.DOTALL,
)
_CARDS: Final = re.compile(r"(?<=<!-- cards -->\n).*?(?=<!-- /cards -->)", re.DOTALL)
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "xml": "application/xml",
}
# One page names its charset in the header alone, the other in its <meta> alone.
_ENCODED: Final = {
    "/archive/1931-logbook.html": ("windows-1252", "text/html; charset=windows-1252"),
    "/archive/letter-from-gdansk.html": ("iso-8859-2", "text/html"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer; `location` is set for a redirect only."""

    status: int
    content_type: str
    body: bytes
    location: str | None = None


class SampleWeb:
    """The pages of the sample web, as they are seen from `origin`.

    Parameters
    ----------
    origin
        Scheme, host and port under which the pages are served, for their canonical addresses,
        the feed and the sitemap.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._files = dict(_files(resources.files(__package__) / "site", "/"))

    def paths(self) -> tuple[str, ...]:
        """Return the paths that have a file, a directory's index under the directory's name."""
        return tuple(sorted(self._files))

    def answer(self, target: str) -> Answer:
        """Return the answer to a request target, such as ``/shop/?sort=price``."""
        parts = urlsplit(target)
        path = parts.path
        if path in self._files:
            return self._page(path, dict(parse_qsl(parts.query)))
        if path in _MOVED:
            return _redirect(_MOVED[path])
        if f"{path}/" in self._files:
            return _redirect(f"{path}/")
        if path == _FAILING:
            return _notice(500, "Anemometer 3 does not answer", "It has been silent since March.")
        return _notice(404, "No such page", "The wind may have taken it.")

    def _page(self, path: str, query: dict[str, str]) -> Answer:
        suffix = "html" if path.endswith("/") else path.rpartition(".")[2]
        charset, content_type = _ENCODED.get(path, ("utf-8", _TYPES[suffix]))
        body = self._files[path]
        if suffix == "png":
            return Answer(200, content_type, body)
        text = body.decode().replace(_ORIGIN, self._origin)
        if path == _SHOP:
            text = _CARDS.sub(lambda cards: _facet(cards[0], query), text)
        return Answer(200, content_type, text.encode(charset))


def _facet(cards: str, query: dict[str, str]) -> str:
    """Keep the cards of one colour and sort them; other parameters change nothing."""
    color = query.get("color")
    found = [card for card in _CARD.finditer(cards) if color in {None, card["color"]}]
    match query.get("sort"):
        case "price":
            found.sort(key=lambda card: float(card["price"]))
        case "name":
            found.sort(key=lambda card: card["name"])
    return "".join(card[0] for card in found)


def _redirect(location: str) -> Answer:
    return Answer(301, _TYPES["txt"], b"Moved.\n", location)


def _notice(status: int, title: str, text: str) -> Answer:
    html = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><title>{title}</title></head>\n'
        f'<body><h1>{title}</h1><p>{text} <a href="/">Back to the front page</a></p></body>\n'
        "</html>\n"
    )
    return Answer(status, _TYPES["html"], html.encode())


def _files(folder: Traversable, path: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{path}{entry.name}/")
        else:
            found.append((path + entry.name.removesuffix("index.html"), entry.read_bytes()))
    return found
