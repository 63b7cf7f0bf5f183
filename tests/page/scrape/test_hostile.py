"""Pages made to cost more than they should: each ends as a row, its neighbours do not notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.page.pages import page_source
from webdata_nb.page.scrape.page import ConversionOptions, Scraped
from webdata_nb.service.workers.pool import PagePool

SIZE = 250_000
CHECKOUT = Path(__file__).resolve().parents[3]
EVERY = ("markdown", "html", "raw_html", "links", "images", "headings", "structured_data")


def nested(piece: str, end: str = "x") -> str:
    return piece * (SIZE // len(piece)) + end


def numbered(piece: str, count: int) -> str:
    return "".join(piece.replace("@", str(number)) for number in range(count))


HOSTILE = {
    "nested div": nested("<div>"),
    "nested links and tables": nested("<a href=x><table><tr><td>"),
    "nested hidden": nested("<div hidden>"),
    "nested pre": nested("<pre>"),
    "nested headings in a link": "<a href=x>" + nested("<div><h1>"),
    "nested lists": nested("<ul>", "<li>x"),
    "nested items": nested("<ul><li>"),
    "nested layout tables": nested("<table><tr><td>", "<h1>x"),
    "nested emphasis": nested("<b><i>", "é"),
    "nested sections": nested("<section><h2>x</h2>"),
    "nested items of data": "<div itemscope>" + nested("<div itemprop=a itemscope>"),
    "active formatting": numbered("<b @>", 6000) + "x</b>" * 6000,
    "50k attributes": f"<p {numbered('a@=1 ', 50_000)}>x",
    "50k handlers": f"<p {numbered('on@=1 ', 50_000)}>x",
    "50k classes": f'<p class="{numbered("c@ ", 50_000)}">x',
    "a class of languages": f'<pre class="{"language-" * 30_000}">x</pre>',
    "10k links": numbered('<a href="/p@">t@</a>', 10_000),
    "10k fragments": numbered('<a href="#p@">t@</a>', 10_000),
    "spans over everything": "<table>" + nested("<tr><td rowspan=999 colspan=999>x"),
    "spans side by side": f"<table><tr>{'<td rowspan=9999>x' * 5000}<tr>{'<td>y' * 5000}",
    "a wide ragged table": f"<table><tr>{'<td>x' * 25_000}<tr>{'<td>y' * 12_000}",
    "a huge srcset": f'<img srcset="{numbered("a@.png @w, ", 15_000)}">',
    "fences in code": nested("<pre>```\n````</pre>"),
    "empty items": nested("<ul><li><span> </span><p>x</p>"),
    "blank lines": "<pre>" + " \n" * 100_000 + "x</pre><p>" + " \n" * 20_000,
    "deep JSON": f'<script type="application/ld+json">{"[" * SIZE}</script>',
    "unclosed comment": "<!--" + "-" * SIZE,
    "ampersands": "&" * SIZE,
    "angle brackets": "<" * SIZE,
    "signs of Markdown": nested("*_`[]#"),
    "bases": numbered('<base href="/x@/">', 12_000),
    "unclosed tag in XHTML": '<?xml version="1.0"?><html xmlns="x">' + nested("<a "),
    "line breaks in each other": "<i><br>" * 20_000 + "x",
    "shadow roots in each other": nested("<div><template shadowrootmode=open><slot></slot>"),
    "a shadow root full of slots": (
        f"<x-a><template shadowrootmode=open>{'<slot></slot>' * 20_000}</template>"
        f"{'<b>x</b>' * 20_000}"
    ),
    "30k links": "<ul>" + '<li><a href="/x">t</a>' * 30_000,
    "a word": "a" * SIZE,
    "emphasis side by side": "<i>é</i>s" + nested("<em>é.</em><b>x</b>"),
    "backticks in a title": (
        f"<i>é</i>s <a href=/x title='{''.join('`' * (run % 300) + 'x' for run in range(1500))}'>t"
    ),
    "link marks in a title": f"<i>é</i>s <a href=/x title=') {nested('](')}'>t",
    "marks in code": "<i>é</i>s" + nested("<code>a`**</code><b><b>(x)</b></b>"),
    "spelled-out spaces in code": f"<pre>{' >' * 50_000}{'&amp;#160;' * 8000}</pre>",
    "tables around rows": "<table><tr><td>" * 100 + "<table>" + nested("<tr><td>"),
    "code within code": "<code>" * 100_000 + "<a href=x>y",
    "a huge table": "<table><tr><td colspan=2 rowspan=99>a" + ("<tr>" + "<td>x" * 250) * 1000,
}


@pytest.mark.slow
@pytest.mark.parametrize("main", [False, True], ids=["page", "main"])
async def test_hostile_pages_are_rows_within_worker_limits(main: bool) -> None:
    options = ConversionOptions(EVERY, only_main_content=main)
    async with PagePool(1) as pages:
        for name, body in HOSTILE.items():
            scraped = await pages.scrape(page_source(body), options)
            assert isinstance(scraped, Scraped), name
            assert set(scraped.formats) == set(EVERY), name


@pytest.mark.slow
async def test_links_beyond_the_outlink_limit_stay_in_the_formats() -> None:
    body = numbered('<a href="/p@">t@</a> ', 100_001) + "<footer>the end</footer>"
    async with PagePool(1) as pages:
        scraped = await pages.scrape(page_source(body), ConversionOptions(("links", "markdown")))
    assert len(scraped.formats["links"]) == 100_001
    assert (len(scraped.outlinks), scraped.metadata["links_omitted"]) == (20_000, 80_001)
    assert scraped.metadata["rung"] == "full"
    assert scraped.formats["markdown"].endswith("the end")


def test_broken_pages_raise_nothing_but_their_own_error() -> None:
    """A longer round: ``WEBDATA_FUZZ_PAGES=100000 WEBDATA_FUZZ_SEED=7``."""
    pages, seed = (
        os.environ.get("WEBDATA_FUZZ_PAGES", "1500"),
        os.environ.get("WEBDATA_FUZZ_SEED", "1"),
    )
    ended = subprocess.run(
        [sys.executable, "-m", "tests.page.scrape.fuzz", seed, pages],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
