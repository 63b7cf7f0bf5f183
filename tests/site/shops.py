"""Two shops that show the same pages under many URLs, and tell which of these are variants.

They are built differently on purpose: what works on one and not on the other is tuned.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.site.document import prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PRODUCTS: Final = 200
COLOURS: Final = ("red", "blue", "green", "grey", "black")
SIZES: Final = ("s", "m", "l")
SORTS: Final = ("price", "name", "newest")
_CATEGORIES: Final = ("boots", "coats", "hats", "bags", "scarves")
_PER_PAGE: Final = 10


class Shop(Protocol):
    """A web site as a function. URLs are absolute and as they are linked."""

    start: str

    def html(self, url: str) -> str | None:
        """Return a page, or None where there is none."""

    def is_variant(self, url: str) -> bool:
        """Whether a URL shows a page that has another, plainer URL."""

    def pages(self) -> frozenset[str]:
        """Return the plain URL of each page that a crawl should bring."""


def _html(title: str, text: str, links: Iterable[str], canonical: str | None = None) -> str:
    items = "".join(f'<li><a href="{escape(link)}">{escape(title)}</a></li>' for link in links)
    own = f'<link rel="canonical" href="{escape(canonical)}">' if canonical else ""
    return (
        f"<!DOCTYPE html><html lang=en><head><title>{escape(title)}</title>{own}</head><body>"
        f"<main><h1>{escape(title)}</h1><p>{text}</p><ul>{items}</ul></main></body></html>"
    )


def _query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def _with(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


@dataclass
class Boutique:
    """Categories by path, filters and sorting by telling names, sessions, tracked promotions.

    Listings declare no canonical URL. A filter shows other products than the plain listing, so
    that only its name, and that it is no page of its own, tells of it.
    """

    start: str = "http://boutique.test/"

    def html(self, url: str) -> str | None:
        """Return the front, a listing, a product or an article."""
        path, query = urlsplit(url).path.strip("/").split("/"), _query(url)
        if path == [""]:
            return self._front()
        if path[0] == "c" and path[1] in _CATEGORIES:
            return self._listing(path[1], query)
        if path[0] == "p" and 0 <= int(path[1]) < PRODUCTS:
            return self._product(int(path[1]))
        if path == ["article"] and query.get("id", "").isdigit():
            number = int(query["id"])
            return _html(f"Article {number}", prose(f"article {number}"), [self.start])
        return None

    def _front(self) -> str:
        lists = [f"{self.start}c/{name}" for name in _CATEGORIES]
        promoted = [
            f"{self.start}p/{number}?utm_source=front&utm_campaign=autumn"
            for number in range(0, PRODUCTS, 20)
        ]
        articles = [f"{self.start}article?id={number}" for number in range(30)]
        return _html("Boutique", prose("front"), [*lists, *promoted, *articles])

    def _listing(self, category: str, query: dict[str, str]) -> str:
        here = f"{self.start}c/{category}"
        chosen = {name: value for name, value in query.items() if name in {"color", "size", "sort"}}
        products = self._chosen(category, chosen)
        number = int(query.get("page", "1"))
        page = products[(number - 1) * _PER_PAGE : number * _PER_PAGE]
        links = [f"{self.start}p/{each}" for each in page]
        links += [f"{self.start}p/{each}?color={COLOURS[each % 5]}" for each in page[:3]]
        links += self._facets(here, chosen)
        if number * _PER_PAGE < len(products):
            links.append(_with(here, {**chosen, "page": str(number + 1)}))
        links += [f"{here}?PHPSESSID={hashlib.md5(urlencode(query).encode()).hexdigest()}"]
        text = " ".join(f"{self._name(each)} at {each + 10} euro." for each in page)
        return _html(f"All {category}", text, links)

    def _facets(self, here: str, chosen: dict[str, str]) -> Iterator[str]:
        """Every combination of one more choice, as listings have it beside their products."""
        for name, values in (("color", COLOURS), ("size", SIZES), ("sort", SORTS)):
            for value in values:
                yield _with(here, {**chosen, name: value})

    def _chosen(self, category: str, chosen: dict[str, str]) -> list[int]:
        found = list(range(_CATEGORIES.index(category), PRODUCTS, len(_CATEGORIES)))
        if "color" in chosen:
            found = [n for n in found if n // 5 % 5 == COLOURS.index(chosen["color"])]
        if "size" in chosen:
            found = [n for n in found if n // 25 % 3 == SIZES.index(chosen["size"])]
        return found[::-1] if chosen.get("sort") == "newest" else found

    def _product(self, number: int) -> str:
        url = f"{self.start}p/{number}"
        text = f"{prose(url)} It costs {number + 10} euro."
        sizes = [f"{url}?size={size}" for size in SIZES]
        return _html(self._name(number), text, [*sizes, self.start], canonical=url)

    @staticmethod
    def _name(number: int) -> str:
        return f"{prose(f'name {number}', 3).strip('.')} {number}"

    def is_variant(self, url: str) -> bool:
        """Any parameter but the page and the article's id makes a variant."""
        return not _query(url).keys() <= {"page", "id"}

    def pages(self) -> frozenset[str]:
        """Return front, listings with their further pages, products and articles."""
        per_category = PRODUCTS // len(_CATEGORIES)
        lists = {f"{self.start}c/{name}" for name in _CATEGORIES}
        further = {
            f"{each}?page={n}" for each in lists for n in range(2, per_category // _PER_PAGE + 1)
        }
        products = {f"{self.start}p/{number}" for number in range(PRODUCTS)}
        articles = {f"{self.start}article?id={number}" for number in range(30)}
        return frozenset({self.start} | lists | further | products | articles)


@dataclass
class Warenhaus:
    """One script with everything in the query, under names that no list knows.

    Sorting and views are told by the canonical URL that listings declare, the session by its
    pages' text alone. The products are told apart by `nr`, listings by `gruppe` and `seite`.
    """

    start: str = "http://warenhaus.test/shop"

    def html(self, url: str) -> str | None:
        """Return the entry, a listing or a product."""
        query = _query(url)
        if "nr" in query:
            return self._product(int(query["nr"]))
        if "gruppe" in query:
            return self._listing(query)
        groups = [self._url(gruppe=str(group)) for group in range(8)]
        return _html("Warenhaus", prose("warenhaus"), groups)

    def _url(self, **query: str) -> str:
        return _with(self.start, query)

    def _listing(self, query: dict[str, str]) -> str:
        group, number = int(query["gruppe"]), int(query.get("seite", "1"))
        plain = {"gruppe": str(group)} | ({"seite": str(number)} if number > 1 else {})
        every = list(range(group, PRODUCTS, 8))
        page = every[(number - 1) * 5 : number * 5]
        order = page[::-1] if query.get("ordnung") == "ab" else page
        parameters = {name: query[name] for name in ("ordnung", "ansicht") if name in query}
        token = hashlib.md5(urlencode(query).encode()).hexdigest()
        links = [self._url(nr=str(each)) for each in order]
        links += [self._url(nr=str(order[0]), kennung=token)]
        links += [
            self._url(**plain, **{**parameters, "ordnung": way}) for way in ("auf", "ab", "neu")
        ]
        links += [
            self._url(**plain, **{**parameters, "ansicht": view}) for view in ("liste", "kachel")
        ]
        if number * 5 < len(every):
            links.append(self._url(gruppe=str(group), seite=str(number + 1), **parameters))
        text = " ".join(f"{prose(f'ware {each}', 12)} Preis {each} Euro." for each in order)
        return _html(f"Gruppe {group}, Seite {number}", text, links, self._url(**plain))

    def _product(self, number: int) -> str:
        return _html(f"Ware {number}", prose(f"ware lang {number}"), [self.start])

    def is_variant(self, url: str) -> bool:
        """Sorting, views and the session make variants."""
        return bool(_query(url).keys() & {"ordnung", "ansicht", "kennung"})

    def pages(self) -> frozenset[str]:
        """Return entry, listings with their further pages, and products."""
        lists = {
            self._url(gruppe=str(group), **({"seite": str(page)} if page > 1 else {}))
            for group in range(8)
            for page in range(1, 6)
        }
        products = {self._url(nr=str(number)) for number in range(PRODUCTS)}
        return frozenset({self.start} | lists | products)
