"""The page and the figure of an audit, of findings with hostile values."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.style
import pandas as pd
import pytest

from webdata_nb import audit_report, plot_audit
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.display.plots import luminance
from webdata_nb.toolkit.sites.audit import issue_kinds

HOSTILE = "\"><script src=http://x.test/s.js></script><img src=x onerror=alert(1)>\x1b\u202e'"


def findings(*rows: tuple[str, str, str, list[str], int]) -> pd.DataFrame:
    severities = {kind.name: kind.severity for kind in issue_kinds().values()}
    frame = pd.DataFrame(
        {
            "issue": [row[0] for row in rows],
            "severity": [severities.get(row[0], HOSTILE) for row in rows],
            "priority": pd.array([64 if row[0] == "broken_page" else 14 for row in rows], "Int16"),
            "scope": ["page" for row in rows],
            "url": [row[1] for row in rows],
            "evidence": [row[2] for row in rows],
            "found_on": pd.Series([row[3] for row in rows], dtype=object),
            "count": [row[4] for row in rows],
            "reach": [1 for row in rows],
        }
    )
    frame.attrs["webdata"] = {"kind": "audit", "subject": f"http://a.test/{HOSTILE}", "pages": 3}
    return frame


BROKEN = ("broken_page", "http://a.test/x", "HTTP 404", ["http://a.test/"], 1)


class Markup(HTMLParser):
    """The tags, the attributes and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_runs_and_loads_nothing(tmp_path: Path) -> None:
    rows = [
        BROKEN,
        (HOSTILE, HOSTILE, HOSTILE, [HOSTILE, "javascript:alert(1)"], 1),
        ("missing_title", "javascript:alert(1)", "", [], 1),
        ("short_title", f"http://a.test/{HOSTILE}", HOSTILE * 9, [f"http://a.test/{HOSTILE}"], 1),
    ]
    path = audit_report(findings(*rows), tmp_path / "audit.html")
    page = Markup(path.read_text("utf-8"))
    layout = {"table", "thead", "tbody", "tr", "th", "td", "br", "p", "h1", "h2", "b", "span", "a"}
    parts = {"html", "head", "meta", "title", "style", "body", "details", "summary"}
    assert page.tags <= layout | parts
    names = {name for name, _ in page.attributes}
    assert names <= {
        *("lang", "charset", "name", "content", "http-equiv", "class", "id", "href", "rel", "open")
    }
    targets = [value for name, value in page.attributes if name == "href"]
    assert all(target.startswith(("http://a.test/", "#")) for target in targets)
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    assert HOSTILE[:20] in page.text
    assert "1 error" not in page.text.split("about 3 pages")[1]


def test_a_report_lists_the_kinds_and_some_findings(tmp_path: Path) -> None:
    sources = [f"http://a.test/{number}" for number in range(20)]
    many = [("noindex", f"http://a.test/n{number}", "", sources, 20) for number in range(600)]
    path = audit_report(findings(BROKEN, *many), str(tmp_path / "audit.html"))
    text = Markup(path.read_text("utf-8")).text
    assert "1 error, 600 notices about 3 pages" in text
    assert 'and 500 more: findings[findings["issue"] == "noindex"]' in text
    assert "and 15 more" in text
    meaning = issue_kinds()["noindex"].meaning
    assert text.count(meaning) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["audit.html"]


def test_missing_values_and_json_text(tmp_path: Path) -> None:
    given = findings(BROKEN, BROKEN)
    given["found_on"] = ['["http://a.test/1"]', None]
    given["evidence"] = [None, float("nan")]
    given["count"] = pd.array([1, None], dtype="Int32")
    page = Markup(audit_report(given, tmp_path / "audit.html").read_text("utf-8"))
    text = page.text
    assert ("href", "http://a.test/1") in page.attributes
    assert "nan" not in text
    assert "None" not in text
    given["found_on"] = ["['http://a.test/1']", None]
    with pytest.raises(InvalidArgument, match="column found_on must have objects or JSON text"):
        audit_report(given, tmp_path / "audit.html")


def test_a_site_without_findings(tmp_path: Path) -> None:
    path = audit_report(findings().iloc[:0], tmp_path / "audit.html")
    assert "No findings about 3 pages" in path.read_text("utf-8")
    figure: Any = plot_audit(findings())
    assert figure.alt_text.endswith("no findings")


def test_a_figure_has_a_bar_for_each_kind() -> None:
    figure: Any = plot_audit(findings(BROKEN, BROKEN, ("noindex", "http://a.test/", "", [], 1)))
    [axes] = figure.axes
    assert [patch.get_width() for patch in axes.patches] == [2, 1]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["broken_page", "noindex"]
    assert figure.alt_text.endswith("3 findings, 3 pages: 2 broken_page, 1 noindex")
    sources: list[str] = []
    rows = [(name, "http://a.test/", "", sources, 1) for name in issue_kinds()]
    many_bars: Any = plot_audit(findings(*rows))
    assert len(many_bars.axes[0].patches) == 25
    assert many_bars.axes[0].get_xlabel() == (
        f"findings (not shown: {len(issue_kinds()) - 25} of {len(issue_kinds()) - 25} other kinds)"
    )


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_a_figure_counts_what_findings_stand_for_and_is_readable(style: str) -> None:
    sources: list[str] = []
    df = findings(BROKEN, *((name, "http://a.test/", "", sources, 7) for name in issue_kinds()))
    df.loc[[3, 5], "scope"] = ["site", "group"]
    df.loc[[3, 5], "count"] = [1234, 70]
    with matplotlib.style.context(style):
        figure: Any = plot_audit(df)
        figure.draw_without_rendering()
        [axes] = figure.axes
        by_kind = dict(
            zip((label.get_text() for label in axes.get_yticklabels()),
                (patch.get_width() for patch in axes.patches), strict=True)
        )  # fmt: skip
        assert by_kind["broken_page"] == 2
        assert by_kind[df["issue"][3]] == 1234
        assert by_kind[df["issue"][5]] == 70
        labels = [text.get_window_extent() for text in axes.texts]
        assert "1,234  whole site" in [text.get_text() for text in axes.texts]
        for number, label in enumerate(labels):
            assert not any(label.overlaps(other) for other in labels[number + 1 :])
        paper = luminance(figure.get_facecolor())
        for text in (*axes.texts, *axes.get_yticklabels(), *figure.texts):
            inks = sorted((paper, luminance(text.get_color())))
            assert (inks[1] + 0.05) / (inks[0] + 0.05) >= 4.5
        area = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert -0.02 <= area.x0 <= area.x1 <= width + 0.02
        assert -0.02 <= area.y0 <= area.y1 <= height + 0.02


def test_a_report_begins_with_the_ten_kinds_that_matter_most(tmp_path: Path) -> None:
    sources = [f"http://a.test/{number}" for number in range(20)]
    rows = [(name, f"http://a.test/{name}", "", sources, 3) for name in list(issue_kinds())[:14]]
    df = findings(*rows)
    df["priority"] = pd.array(range(14, 28), dtype="Int16")
    df.loc[13, "scope"] = "site"
    df.loc[13, "evidence"] = "690 of 691 pages"
    df.loc[13, "count"] = 690
    html = audit_report(df, tmp_path / "audit.html").read_text("utf-8")
    top, rest = html.split("What matters most")[1].split("Other findings")
    listed = re.findall(r'<a href="#(\w+)"', top)
    assert listed == [name for name, *_ in reversed(rows)][:10]
    assert "690 of 691 pages" in top
    assert re.findall(r'<a href="#(\w+)"', rest) == [name for name, *_ in reversed(rows)][10:]
    assert "1 kinds" not in html
    assert "and 685 more" in rest  # pages that the row does not name
    given = df.sample(frac=1, random_state=1)
    given.attrs = df.attrs
    assert audit_report(given, tmp_path / "b.html").read_text("utf-8") == html


@pytest.mark.parametrize("function", [plot_audit, lambda df: audit_report(df, "x.html")])
def test_other_frames_are_refused(function: Any) -> None:
    with pytest.raises(InvalidArgument, match="findings must be what audit_df returned, with"):
        function(pd.DataFrame({"url": []}))
    with pytest.raises(InvalidArgument, match="must be a pandas DataFrame"):
        function(None)


def test_a_file_that_cannot_be_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="path"):
        audit_report(findings(BROKEN), tmp_path / "missing" / "audit.html")
    with pytest.raises(InvalidArgument, match=r"path must end in \.html or \.htm; it is"):
        audit_report(findings(BROKEN), tmp_path / "audit.pdf")
