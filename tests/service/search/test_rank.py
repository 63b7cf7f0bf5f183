"""Unique results in organic order."""

from __future__ import annotations

import base64
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.contract.url_keys import result_key
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.search.providers.api import SearchResult
from webdata_nb.service.search.rank import Ranking, organic_url

YAHOO = "https://r.search.yahoo.com/_ylt=A"
BING = "https%3a%2f%2fwww.bing.com"


def search_result(url: str) -> SearchResult:
    return SearchResult(url, url, "")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://x.test/a", "https://www.x.test/a/", True),
        ("http://x.test/a?utm_source=m&b=1", "http://x.test/a?b=1", True),
        ("http://x.test/a?gclid=1", "http://x.test/a", True),
        ("http://x.test/a#part", "http://x.test/a", True),
        ("http://x.test:80/a", "http://x.test/a", True),
        ("http://x.test/a?b=1", "http://x.test/a?b=2", False),
        ("http://x.test/a?id=", "http://x.test/a", False),
        ("http://x.test/a", "http://x.test/A", False),
        ("http://x.test:8080/a", "http://x.test/a", False),
        ("http://sub.x.test/a", "http://x.test/a", False),
    ],
)
def test_result_keys_of_equal_urls(one: str, other: str, same: bool) -> None:
    assert (result_key(one) == result_key(other)) is same


def test_ranking_removes_duplicates_and_stops_when_full() -> None:
    ranking = Ranking(3)
    assert (
        ranking.add(
            [search_result("http://x/a"), search_result("http://x/a/"), search_result("http://x/b")]
        )
        == 2
    )
    assert not ranking.is_full
    assert (
        ranking.add(
            [search_result("http://x/b"), search_result("http://x/c"), search_result("http://x/d")]
        )
        == 1
    )
    assert ranking.is_full
    assert [result.url for result in ranking.results] == ["http://x/a", "http://x/b", "http://x/c"]


@pytest.mark.parametrize(
    ("link", "leads_to"),
    [
        ("https://www.google.com/url?sa=t&q=https%3A%2F%2Fx.test%2Fa%3Fb", "https://x.test/a?b"),
        ("https://google.co.uk/url?url=https://x.test/", "https://x.test/"),
        ("https://www.bing.com/ck/a?!&&p=1&u=a1aHR0cHM6Ly94LnRlc3QvYT9iPTE", "https://x.test/a?b=1"),
        ("//duckduckgo.com/l/?uddg=https%3A%2F%2Fx.test%2Fa%2526b&rut=1", "https://x.test/a%26b"),
        (f"{YAHOO}/RV=2/RU=https%3a%2f%2fx.test%2fa%2bb/RK=2/RS=k-", "https://x.test/a+b"),
        (f"{YAHOO}/RU={BING}%2fck%2fa%3fu%3da1aHR0cHM6Ly94LnRlc3Qv/RK=2", "https://x.test/"),
        ("https://x.test/url?q=https://y.test/", "https://x.test/url?q=https://y.test/"),
        ("https://notbing.com/ck/a?u=a1aHR0", "https://notbing.com/ck/a?u=a1aHR0"),
        ("HTTPS://X.test:443/a/../b#part", "https://x.test/b"),
        ("https://duckduckgo.com/y.js?ad_domain=x.test&u3=k", None),
        ("https://www.bing.com/aclick?ld=e8", None),
        ("https://www.google.com/aclk?sa=l", None),
        ("https://www.googleadservices.com/pagead/aclk?sa=L", None),
        ("https://r.search.yahoo.com/cbclk2/dWU9/RV=2", None),
        (f"{YAHOO}/RU={BING}%2faclick%3fld%3de8/RK=2", None),
        ("javascript:void(0)", None),
        ("/relative", None),
        ("", None),
    ],
)  # fmt: skip
def test_redirect_links_are_unwrapped(link: str, leads_to: str | None) -> None:
    assert organic_url(link) == leads_to


def test_advertisements_have_no_rank() -> None:
    ranking = Ranking(10)
    ranking.add(
        [
            search_result("https://www.bing.com/aclick?ld=1"),
            search_result("https://duckduckgo.com/l/?uddg=https%3A%2F%2Fx.test%2Fa"),
            search_result("http://www.x.test/a/"),
            search_result("https://x.test/b"),
        ]
    )
    assert [result.url for result in ranking.results] == ["https://x.test/a", "https://x.test/b"]


PARTS = st.text(st.sampled_from("abcXYZ019~-._ %&=+#?/é日"), max_size=20)
NOISE = st.sampled_from(["utm_source=x", "gclid=1", "fbclid=2", "_gl=3", "srsltid=4"])


@given(path=PARTS, name=PARTS, value=PARTS, noise=st.lists(NOISE, max_size=3), data=st.data())
def test_irrelevant_url_parts_do_not_change_key(
    path: str, name: str, value: str, noise: list[str], data: st.DataObject
) -> None:
    own = urlencode({name: value})
    query = "&".join(data.draw(st.permutations([own, *noise])))
    plain = f"http://x.test/{quote(path)}?{own}"
    same = f"https://www.x.test/{quote(path)}?{query}#part"
    assert result_key(canonical_url(plain)) == result_key(canonical_url(same))


@given(path=PARTS, value=PARTS)
def test_unwrapped_target_equals_wrapped_url(path: str, value: str) -> None:
    url = canonical_url(f"https://x.test/{quote(path)}?{urlencode({'q': value})}")
    packed = base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
    for wrapped in (
        f"https://www.google.com/url?{urlencode({'sa': 't', 'q': url})}",
        f"https://www.bing.com/ck/a?p=1&u=a1{packed}&ntb=1",
        f"https://duckduckgo.com/l/?{urlencode({'uddg': url})}",
        f"https://r.search.yahoo.com/_ylt=A/RU={quote(url, safe='')}/RK=2/RS=x",
    ):
        assert organic_url(wrapped) == url
