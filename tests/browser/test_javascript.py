"""Whether a page is worth reading without its scripts."""

from __future__ import annotations

import urllib.request

import pytest

from tests.cpu_deadline import cpu_deadline
from tests.site.document import document, prose
from webdata_nb.demo.server import SampleSite
from webdata_nb.page.content.quality import is_empty_without_javascript

pytestmark = pytest.mark.slow

NOTICE = "<noscript>You need to enable JavaScript to run this app.</noscript>"
APP = "<script type=module src=/assets/index.js></script>"
EMPTY = [
    f"<!doctype html><title>App</title>{NOTICE}<div id=root></div>{APP}",
    f"<title>A long title of a page that says much</title><body><div id='app'>\n </div>{APP}",
    f"<body><app-root></app-root>{APP}</body>",
    f"<body><app-root _nghost ng-version='17'>Loading...</app-root>{APP}</body>",
    f"<div id=__next></div><script id=data>{{'text': '{prose('state', 900)}'}}</script>{APP}",
    f"<div class=page><nav>Home About Contact</nav><main id=main></main></div>{APP}",
    f"<style>{'p {{ margin: 0 }}' * 100}</style><p>Loading&hellip;</p>{APP}",
    f"<!-- {prose('comment', 300)} --><p>Loading</p>{APP}",
    "<DIV ID=ROOT></DIV><SCRIPT SRC=/app.js></SCRIPT>",
    "<p>One moment</p><script>location.reload()",
]
FULL = [
    "",
    "<h1>Hello</h1>",
    "<div id=root></div>",
    f"<p>{prose('p', 120)}</p><div id=modal></div>{APP}{NOTICE}",
    f"<img src=a.png><img src=b.png><figcaption>Two pictures</figcaption>{APP}",
    document("An article"),
    f"<div id=root></div>{APP}<noscript><article>{prose('n', 120)}</article></noscript>",
    f"<p>{prose('p', 40)}</p>{APP}",
]


@pytest.mark.parametrize("html", EMPTY)
def test_pages_that_scripts_make(html: str) -> None:
    assert is_empty_without_javascript(html.encode())


@pytest.mark.parametrize("html", FULL)
def test_pages_that_are_there(html: str) -> None:
    assert not is_empty_without_javascript(html.encode())


@pytest.mark.parametrize("path", ["", "articles"])
def test_the_sample_web_is_there(sample_site: SampleSite, path: str) -> None:
    with urllib.request.urlopen(sample_site.url + path) as answer:
        assert not is_empty_without_javascript(answer.read())


@pytest.mark.parametrize(
    "unit",
    ["<script", "<!--", "<div id=a>", "<", "<a-b>", "</", "<p ", "<noscript>", "&#", "<div id= "],
)
def test_no_page_takes_long(unit: str) -> None:
    """A million bytes of one thing: what grows with the square would take hours."""
    page = (unit * (1_000_000 // len(unit)) + APP).encode()
    with cpu_deadline():
        is_empty_without_javascript(page)
