"""Webs that are generated: trees, chains, traps and a shop, each with what a crawl should find."""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.site.document import document, prose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiohttp import web

    from tests.site.server import Site

_COLORS: Final = ("red", "blue", "green", "grey", "black")
_SORTS: Final = ("price", "name", "new")
_MONTHS: Final = 12
_PER_LISTING: Final = 20


def link_tree(site: Site, *, depth: int, fanout: int, root: str = "/tree") -> tuple[str, ...]:
    """Make a tree of pages that link down and back to the root; return it breadth first."""
    levels = [[root]]
    for _ in range(depth):
        levels.append([f"{path}/{child}" for path in levels[-1] for child in range(fanout)])
    for path in itertools.chain.from_iterable(levels[:-1]):
        down = [f"{path}/{child}" for child in range(fanout)]
        site.page(path, document(f"Page {path}", links=[*down, root]))
    for path in levels[-1]:
        site.page(path, document(f"Page {path}", links=[root]))
    return tuple(itertools.chain.from_iterable(levels))


def large_tree(site: Site, *, fanout: int = 8, root: str = "/page/") -> str:
    """Add a tree without end, whose pages are numbered in breadth-first order; return its start.

    Page n links to its children, to pages before it, and has a text of its own.
    """

    def page(request: web.BaseRequest) -> str:
        number = int(request.path.removeprefix(root))
        chance = random.Random(number)
        before = [chance.randrange(number + 1) for _ in range(12)]
        children = range(fanout * number + 1, fanout * number + fanout + 1)
        links = [f"{root}{other}" for other in (0, *before, *children)]
        return document(f"Page {number}", text=prose(f"{root}{number}", 250), links=links)

    site.under(root, page)
    return f"{root}0"


def chain(site: Site, length: int, *, root: str = "/chain") -> tuple[str, ...]:
    """Make pages that each link to the next; return them in order."""
    paths = tuple(f"{root}/{number}" for number in range(length))
    for path, following in itertools.zip_longest(paths, paths[1:]):
        site.page(path, document(f"Page {path}", links=[following] if following else []))
    return paths


def redirect_chain(site: Site, hops: int, *, root: str = "/hop") -> tuple[str, ...]:
    """Make `hops` redirects, each to the next and the last to a page; return all the paths."""
    paths = tuple(f"{root}/{number}" for number in range(hops + 1))
    for path, following in itertools.pairwise(paths):
        site.redirect(path, following)
    site.page(paths[-1], document("The end of the redirects"))
    return paths


def redirect_loop(site: Site, length: int = 2, *, root: str = "/loop") -> tuple[str, ...]:
    """Make redirects that come back to the first; return their paths."""
    paths = tuple(f"{root}/{number}" for number in range(length))
    for path, following in zip(paths, (*paths[1:], paths[0]), strict=True):
        site.redirect(path, following)
    return paths


def copies(site: Site, count: int, *, root: str = "/copy") -> tuple[str, ...]:
    """Make pages whose bodies are the same byte for byte; return their paths."""
    paths = tuple(f"{root}/{number}" for number in range(count))
    for path in paths:
        site.page(path, document("One page under many names"))
    return paths


def calendar(site: Site, *, root: str = "/calendar") -> str:
    """Make a calendar whose months link to the months before and after, without end."""

    def month(request: web.BaseRequest) -> str:
        year, number = (int(part) for part in request.path.removeprefix(f"{root}/").split("/"))
        around = (year * _MONTHS + number - 1 + step for step in (-1, 1))
        links = [f"{root}/{months // _MONTHS}/{months % _MONTHS + 1}" for months in around]
        return document(f"Month {number} of {year}", links=links, text="No events this month.")

    site.under(f"{root}/", month)
    return f"{root}/2026/11"


def sessions(site: Site, *, pages: int = 5, root: str = "/session") -> tuple[str, ...]:
    """Make pages whose links carry a session id that is new in each answer; return the pages."""
    paths = tuple(f"{root}/{number}" for number in range(pages))
    fresh = itertools.count(1)

    def answer(path: str) -> Callable[[web.BaseRequest], str]:
        return lambda _request: document(
            f"Page {path}", links=[f"{other}?sid={next(fresh):08x}" for other in paths]
        )

    for path in paths:
        site.page(path, answer(path))
    return paths


def soft_404s(site: Site, *, links: int = 10, root: str = "/farm") -> str:
    """Make a farm where every path answers 200 with "not found", and links to further ones."""

    def lost(request: web.BaseRequest) -> str:
        further = [f"{request.path.rstrip('/')}/{number}" for number in range(links)]
        return document("Page not found", links=further, text="We could not find that page.")

    site.under(f"{root}/", lost)
    return f"{root}/0"


@dataclass(frozen=True, slots=True)
class Shop:
    """Where a shop's pages are: its front, its product pages and its facet variants."""

    front: str
    products: tuple[str, ...]
    facets: tuple[str, ...]


def shop(site: Site, *, products: int = 200, facets: int = 30, root: str = "/shop") -> Shop:
    """Make a shop whose listings show 20 products each and link to every facet combination."""
    paths = tuple(f"{root}/product-{number}" for number in range(products))
    variants = tuple(f"{root}?{query}" for query in itertools.islice(_facet_queries(), facets))
    listings = math.ceil(products / _PER_LISTING)

    def listing(request: web.BaseRequest) -> str:
        query = dict(parse_qsl(urlsplit(request.raw_path).query))
        number = int(query.get("page", "1"))
        listed = paths[(number - 1) * _PER_LISTING : number * _PER_LISTING]
        following = [f"{root}?page={number + 1}"] if number < listings else []
        return document(
            f"Shop, {urlencode(query) or 'all'}", links=[*variants, *listed, *following]
        )

    site.page(root, listing)
    for number, path in enumerate(paths):
        site.page(path, _product(path, number, back=root))
    return Shop(root, paths, variants)


def _facet_queries() -> itertools.chain[str]:
    """Yield queries of one, two and three facets, in a fixed order."""
    one = [{"color": color} for color in _COLORS] + [{"sort": sort} for sort in _SORTS]
    two = [{"color": color, "sort": sort} for color in _COLORS for sort in _SORTS]
    three = [{**pair, "size": size} for size in ("s", "m", "l") for pair in two]
    return itertools.chain(map(urlencode, one), map(urlencode, two), map(urlencode, three))


def _product(path: str, number: int, *, back: str) -> str:
    head = (
        '<script type="application/ld+json">{"@context": "https://schema.org", '
        f'"@type": "Product", "name": "Product {number}", "sku": "P{number:04}", '
        f'"offers": {{"@type": "Offer", "price": "{number}.50", "priceCurrency": "EUR"}}}}</script>'
    )
    return document(f"Product {number}", links=[back], text=prose(path), head=head)


def cross_links(sites: tuple[Site, ...], *, path: str = "/") -> None:
    """Let the front page of each site link to the front page of every other."""
    for here in sites:
        others = [there.at(path) for there in sites if there is not here]
        here.page(path, document(f"Front of {here.port}", links=others))


def breadth_first(links: dict[str, tuple[str, ...]], start: str) -> tuple[str, ...]:
    """Return the paths of a link table in the order in which bfs must fetch them."""
    order, waiting, seen = [], deque([start]), {start}
    while waiting:
        path = waiting.popleft()
        order.append(path)
        for link in links.get(path, ()):
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    return tuple(order)


def depth_first(
    links: Mapping[str, Sequence[str]], start: str, *, max_depth: int = 10**9
) -> tuple[str, ...]:
    """Return the paths of a link table in the order in which dfs must fetch them.

    A path is as deep as the shortest way to it that is known when it is visited.
    """
    order: dict[str, None] = {}
    depths, stack = {start: 0}, [start]
    while stack:
        path = stack.pop()
        if path in order:
            continue
        order[path] = None
        for link in reversed(links.get(path, ())):
            depths[link] = min(depths.get(link, max_depth + 1), depths[path] + 1)
            if depths[link] <= max_depth:
                stack.append(link)
    return tuple(order)
