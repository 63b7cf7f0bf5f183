from __future__ import annotations

import json
import re
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.site import graphs
from tests.site.reading import PageReading, read_html
from tests.site.server import Site


def read(site: Site, path: str) -> PageReading:
    with urlopen(site.at(path)) as answer:
        return read_html(answer.read().decode(), answer.url)


def links(site: Site, path: str) -> tuple[str, ...]:
    return tuple(link.removeprefix(site.url[:-1]) for link in read(site, path).links)


def test_a_tree_is_returned_breadth_first(site: Site) -> None:
    paths = graphs.link_tree(site, depth=2, fanout=2, root="/t")
    assert paths == ("/t", "/t/0", "/t/1", "/t/0/0", "/t/0/1", "/t/1/0", "/t/1/1")
    table = {path: links(site, path) for path in paths}
    assert graphs.breadth_first(table, "/t") == paths
    assert len({read(site, path).words for path in paths}) == len(paths)


def test_a_chain_has_one_way(site: Site) -> None:
    paths = graphs.chain(site, 3)
    assert [links(site, path) for path in paths] == [paths[1:2], paths[2:3], ()]


def test_redirects_lead_on_or_round(site: Site) -> None:
    paths = graphs.redirect_chain(site, 3)
    assert read(site, paths[0]).title == "The end of the redirects"
    loop = graphs.redirect_loop(site)
    with pytest.raises(HTTPError, match="infinite loop") as failure:
        urlopen(site.at(loop[0]))
    failure.value.close()


def test_copies_are_equal(site: Site) -> None:
    first, second = (urlopen(site.at(path)).read() for path in graphs.copies(site, 2))
    assert first == second


def test_a_calendar_has_no_end(site: Site) -> None:
    path = graphs.calendar(site)
    assert links(site, path) == ("/calendar/2026/10", "/calendar/2026/12")
    assert links(site, "/calendar/2026/12") == ("/calendar/2026/11", "/calendar/2027/1")


def test_sessions_never_repeat_a_link(site: Site) -> None:
    (first, *_) = graphs.sessions(site, pages=2)
    assert not set(links(site, first)) & set(links(site, first))


def test_a_farm_answers_everything_alike(site: Site) -> None:
    path = graphs.soft_404s(site, links=2)
    assert links(site, path) == ("/farm/0/0", "/farm/0/1")
    assert read(site, "/farm/9/9/9").title == "Page not found"


def test_a_shop_shows_every_product_and_facet(site: Site) -> None:
    shop = graphs.shop(site, products=50, facets=30)
    assert len(set(shop.facets)) == 30
    listed = {link for page in (1, 2, 3) for link in links(site, f"{shop.front}?page={page}")}
    assert set(shop.products) | set(shop.facets) <= listed
    assert "/shop?page=4" not in listed
    html = urlopen(site.at(shop.products[7])).read().decode()
    data = re.search(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["offers"]["price"] == "7.50"


def test_sites_that_link_to_each_other() -> None:
    with Site() as one, Site() as two:
        graphs.cross_links((one, two))
        assert read(one, "/").links == (two.url,)
        assert read(two, "/").links == (one.url,)
