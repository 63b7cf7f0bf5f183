"""What notebooks display, in Chromium with the styles of JupyterLab: readable at every width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.display import dom_rules
from tests.frames.test_rows import CRAWLED
from tests.requirements import require, require_module
from webdata_nb import gallery, show
from webdata_nb.toolkit.api import frame_views
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.display.bars import View
from webdata_nb.toolkit.frames import frame, rows, schemas
from webdata_nb.toolkit.frames.frame import CallReceipt

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The rules of JupyterLab that a table meets: right-aligned cells that wrap, stripes, its colours.
_STYLES: Final = """
:root { --link: #1976d2; --text: rgba(0, 0, 0, 0.87); --page: #fff; --stripe: #f5f5f5 }
:root.dark { --link: #64b5f6; --text: #fff; --page: #111; --stripe: #212121 }
body { background: var(--page); color: var(--text); font: 13px sans-serif }
a { color: var(--link) }
table { table-layout: fixed; margin: 0 auto; border: none }
tr, th, td { text-align: right; padding: 0.5em; white-space: normal; max-width: none }
tbody tr:nth-child(odd) { background: var(--stripe) }
"""
LINE: Final = "crawl https://a.test/: 30 rows; 224 more found beyond max_pages; 9.6 s"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    playwright = require_module("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=require("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser.new_page()
        browser.close()


def crawled() -> Any:
    url = "https://docs.example.com/library/a-folder-with-a-long-name/page.html"
    listed = [
        {**CRAWLED, "url": f"{url}?page={n}", "title": "Asynchronous input and output " * n}
        for n in range(12)
    ]
    columns = schemas.frame_columns("crawl", formats=["markdown", "links"], metadata=True)
    attrs = {"kind": "crawl", "line": LINE}
    return frame.build(rows.to_table("crawl", listed), columns=columns, attrs=attrs)


def searched() -> Any:
    listed = [
        {
            "rank": n,
            "url": f"https://example.com/{n}",
            "title": "Title " * n,
            "snippet": "An internationalization " * 9,
            "error": "timeout",
        }
        for n in range(1, 9)
    ]
    columns = schemas.frame_columns("search")
    attrs = {"kind": "search", "line": "search gulls: 8 rows"}
    return frame.build(rows.to_table("search", listed), columns=columns, attrs=attrs)


def outputs() -> list[str]:
    running = View("crawl https://a.test/", 300, completed=20, elapsed=5, rate=2.0)
    ended = View("crawl https://a.test/", 300, ending="done", summary=LINE.partition(": ")[2])
    creatives = [{"position": 1, "creative_id": "CR1", "headline": "A rain gauge " * 9}]
    return [
        frame_views.compact_html(crawled()),
        frame_views.compact_html(searched()),
        frame_views.compact_html(crawled()[["url", "title"]].tail(2)),
        show(crawled(), max_rows=3)._repr_html_(),
        gallery(frame.build(rows.to_table("creatives", creatives)))._repr_html_(),
        bars.render_html(running),
        bars.render_html(ended),
        bars.object_bundle("x", "https://a.test/not-there: not seen", "job")["text/html"],
        CallReceipt(line=LINE, file="/home/me/.cache/webdata/v1/crawl/x.parquet")._repr_html_(),
    ]


def document(parts: list[str], theme: str) -> str:
    inside = "".join(f"<section>{part}</section>" for part in parts)
    return (
        f'<!doctype html><html class="{theme}"><meta charset="utf-8"><style>{_STYLES}</style>'
        f"<body>{inside}</body></html>"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1000, 1600])
def test_words_are_whole_texts_are_in_their_boxes_and_dark_enough(
    page: Page, theme: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.set_content(document(outputs(), theme))
    assert dom_rules.problems(page.locator("body")) == []


@pytest.mark.parametrize("width", [800, 1200, 1600])
def test_titles_and_column_names_stay_in_view_of_a_shown_table(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.set_content(document([show(crawled(), max_rows=40)._repr_html_()], "light"))
    scroller = page.locator("table").locator("xpath=..")
    for share in (0, 0.5, 1):
        hidden = scroller.evaluate(_HIDDEN, share)
        assert hidden == [], share
    # The names of the columns are above the titles that scroll below them.
    assert scroller.evaluate(_TOP_LEFT) == "TH"


# Scrolls a part of the way in both directions; returns which names are covered or out of sight.
_HIDDEN = """
(scroller, share) => {
  scroller.scrollTo(share * scroller.scrollWidth, share * scroller.scrollHeight);
  const box = scroller.getBoundingClientRect();
  const at = [...scroller.querySelectorAll('th')].findIndex(each => each.textContent === 'title');
  const titles = [...scroller.querySelectorAll('tbody tr')].map(row => row.cells[at]);
  const isOut = each => {
    const inner = each.getBoundingClientRect();
    return inner.left < box.left - 1 || inner.right > box.right + 1;
  };
  const heads = [...scroller.querySelectorAll('th')];
  return [...titles.filter(isOut), ...heads.filter(
    each => Math.abs(each.getBoundingClientRect().top - box.top) > 1)].map(e => e.textContent);
}
"""
_TOP_LEFT = """
scroller => {
  const at = [...scroller.querySelectorAll('th')].find(each => each.textContent === 'title');
  const box = at.getBoundingClientRect();
  return document.elementFromPoint(box.left + 5, box.top + 5).closest('th, td').tagName;
}
"""


def test_links_leave_out_the_host_of_all_rows_and_lead_to_the_page(page: Page) -> None:
    df = crawled()
    for markup in (frame_views.compact_html(df), show(df)._repr_html_()):
        page.set_content(document([markup], "light"))
        links = page.locator("tbody a").evaluate_all("all => all.map(a => [a.text, a.href])")
        assert len(links) >= 10
        for text, href in links:
            assert text.startswith("/")
            assert "…" in text or href.endswith(text)
            assert href.startswith("https://docs.example.com/")
        assert page.get_by_text("URLs below https://docs.example.com").count() == 1


@pytest.mark.parametrize("width", [800, 1000])
def test_a_wide_table_scrolls_and_the_page_does_not(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.set_content(document([show(crawled())._repr_html_()], "light"))
    widths = page.evaluate(
        "[document.body.scrollWidth, document.querySelector('table').scrollWidth]"
    )
    assert widths[0] <= width < widths[1]


def test_six_columns_fit_at_1000_pixels(page: Page) -> None:
    page.set_viewport_size({"width": 1000, "height": 900})
    page.set_content(document([frame_views.compact_html(crawled())], "light"))
    assert page.locator("thead th").count() >= 6
    assert page.evaluate("document.querySelector('table').scrollWidth") <= 984


@pytest.mark.parametrize(
    ("rule", "markup"),
    [
        ("broken word", '<div style="width:20px;overflow-wrap:anywhere">success</div>'),
        (
            "broken word",
            '<table style="width:30px"><th style="overflow-wrap:anywhere">status_code</th></table>',
        ),
        ("outside its box", '<div style="width:20px;white-space:nowrap">a long line</div>'),
        ("pale", '<div style="color:#999">pale</div>'),
        ("pale", '<div style="opacity:.3">pale</div>'),
        ("pale", '<div style="background:#777"><a href="#">pale</a></div>'),
    ],
)
def test_a_problem_would_be_found(page: Page, rule: str, markup: str) -> None:
    page.set_content(document([markup], "light"))
    assert any(found.startswith(rule) for found in dom_rules.problems(page.locator("body")))
