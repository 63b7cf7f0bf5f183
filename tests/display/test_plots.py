"""Figures: what they say, for few and for many, and what they refuse."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64decode
from io import BytesIO
from typing import Any
from urllib.parse import quote

import matplotlib.style
import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Patch
from PIL import Image
from turbohtml import parse

from webdata_nb import plot_crawl, plot_ranks
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.display import plots
from webdata_nb.toolkit.display.plots import luminance


def crawl(urls: list[str], codes: list[int | None]) -> pd.DataFrame:
    df = pd.DataFrame(
        {
            "url": urls,
            "depth": pd.array([min(n, 3) for n in range(len(urls))], dtype="Int16"),
            "status_code": pd.array(codes, dtype="Int16"),
            "success": pd.array([code == 200 for code in codes], dtype="boolean"),
        }
    )
    df.attrs = {"webdata": {"kind": "crawl", "subject": "https://a.test/"}}
    return df


def history(*snapshots: list[str]) -> pd.DataFrame:
    rows = [
        (pd.Timestamp(f"2026-11-{day:02d}", tz="UTC"), rank, url)
        for day, urls in enumerate(snapshots, 1)
        for rank, url in enumerate(urls, 1)
    ]
    return pd.DataFrame(rows, columns=["taken_at", "rank", "url"])


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def drawn(figure: Any) -> bool:
    return bool(figure._repr_png_().startswith(b"\x89PNG"))


def test_a_small_crawl_names_its_folders_and_counts_its_depths() -> None:
    urls = ["https://a.test/", "https://a.test/shop/", "https://a.test/shop/x$y$z%C3%BC"]
    figure = plot_crawl(crawl(urls, [200, 404, None]))
    tree, depths = figure.axes
    assert drawn(figure)
    assert texts(tree) == ["shop/  2", "(index)", r"x\$y\$zü", "(front page)"]
    assert texts(depths) == ["1", "1", "1"]
    assert (depths.get_xlabel(), depths.get_ylabel()) == ("pages", "clicks")
    assert depths.yaxis_inverted()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["read", "client error (4xx)", "no answer"]


def test_a_query_string_makes_no_folder() -> None:
    urls = [f"https://a.test/list/?page={n}" for n in range(3)] + ["https://a.test/list?a/b=c/d"]
    figure = plot_crawl(crawl(urls, [200] * 4))
    assert texts(figure.axes[0]) == ["list  4"]


def test_a_chain_of_folders_is_one_box_and_levels_are_three() -> None:
    urls = [f"https://a.test/docs/3/{a}/{b}/{c}/x" for a in "pq" for b in "rs" for c in "tu"]
    figure = plot_crawl(crawl(urls, [200] * 8))
    assert texts(figure.axes[0]) == [
        "docs/3/  8", "p/  4", "r/  2", "s/  2", "q/  4", "r/  2", "s/  2"
    ]  # fmt: skip


@pytest.mark.parametrize("count", [50, 1000, 20_000])
def test_large_crawls_are_grouped_and_no_label_covers_another(count: int) -> None:
    urls = [f"https://a.test/{'a' if n % 3 else 'b'}/{n}/page?q={n}" for n in range(count)]
    figure = plot_crawl(crawl(urls, [200] * count))
    assert drawn(figure)
    tree: Any = figure.axes[0]
    assert f"{count:,} pages" in figure.get_suptitle()
    assert texts(tree)[0].startswith("a/  ")
    assert any(text.startswith(("a/", "0/", "1*  ")) for text in texts(tree)[1:])
    assert len(tree.texts) < 100
    boxes = [text.get_window_extent() for text in tree.texts if text.get_text().strip()]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


WORDS = ("sql", "app", "catalog", "functions")
MANY_PATHS: dict[str, list[str]] = {
    "five pages": ["", *(f"p{n}.html" for n in range(4))],
    "flat with prefixes": [f"{WORDS[n % 4]}-{n}.html" for n in range(1000)],
    "flat with numbers": [str(n) for n in range(1000)],
    "flat with hashes": [f"{n * 0x9E3779B1 % 2**32:08x}.html" for n in range(1000)],
    "flat in capitals": [f"{'WM' * 20}{n}" for n in range(300)],
    "deep": ["/".join(f"l{d}-{n % (d + 2)}" for d in range(9)) + f"/{n}" for n in range(700)],
    "long names": [f"{'long-folder-' * 5}{n % 7}/{'long-page-' * 9}{n}" for n in range(300)],
    "CJK": [quote(f"東京{'京阪古'[n % 3]}/{'都大名'[n % 2]}版{n}") for n in range(400)],
    "right to left": [quote(f"{('مقالات', 'חדשות')[n % 2]}/أخبار-{n}") for n in range(400)],
    "one folder of two": [f"a/{n}" for n in range(200)] + ["b"],
}


@pytest.mark.parametrize(
    "style", ["default", pytest.param("dark_background", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", MANY_PATHS)
def test_what_is_written_fits_its_box_and_can_be_read(name: str, style: str) -> None:
    urls = [f"https://a.test/{path}" for path in MANY_PATHS[name]]
    df = crawl(urls, [404 if n % 9 == 0 else 200 for n in range(len(urls))])
    with matplotlib.style.context(style):
        check_boxes(plot_crawl(df), len(urls))


def test_what_is_written_on_colours_can_be_read() -> None:
    urls = [f"https://a.test/{path}" for path in MANY_PATHS["flat with prefixes"]]
    df = crawl(urls, [200] * len(urls))
    df["time_taken"] = [n % 4 + n % 13 / 10 for n in range(len(urls))]
    check_boxes(plot_crawl(df, color="time_taken"), len(urls))


def check_boxes(figure: Any, pages: int) -> None:
    """Check each label of the folders, and that heights are numbers of pages."""
    figure.draw_without_rendering()
    tree = figure.axes[0]
    written = [text for text in tree.texts if text.get_text().strip()]
    labels = [text.get_window_extent() for text in written]
    boxes = [patch for patch in tree.patches if patch.get_width() > 0.5]
    assert written
    assert {patch.get_height() for patch in boxes} <= set(range(1, pages + 1))
    assert sum(patch.get_height() for patch in boxes if patch.get_x() == 0) == pages
    for number, (text, label) in enumerate(zip(written, labels, strict=True)):
        x, y = text.get_position()
        box = next(
            patch for patch in boxes
            if patch.get_x() < x < patch.get_x() + 1
            and patch.get_y() < y < patch.get_y() + patch.get_height()
        )  # fmt: skip
        place = box.get_window_extent().padded(1)
        assert place.x0 <= label.x0 <= label.x1 <= place.x1, text.get_text()
        assert place.y0 <= label.y0 <= label.y1 <= place.y1, text.get_text()
        assert not any(label.overlaps(other) for other in labels[number + 1 :])
        inks = sorted(map(luminance, (text.get_color(), box.get_facecolor())))
        assert (inks[1] + 0.05) / (inks[0] + 0.05) >= 4.5
        counted = re.fullmatch(r".*  ([\d,]+)", text.get_text())
        if counted:
            assert int(counted[1].replace(",", "")) == box.get_height()
    drawn_area = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert -0.02 <= drawn_area.x0 <= drawn_area.x1 <= width + 0.02
    assert -0.02 <= drawn_area.y0 <= drawn_area.y1 <= height + 0.02


def test_flat_sites_are_grouped_by_how_names_begin() -> None:
    urls = [f"https://a.test/{WORDS[n % 4]}-{n}.html" for n in range(1000)]
    urls += [f"https://a.test/{name}" for name in ("index.html", "about.html")]
    labels = texts(plot_crawl(crawl(urls, [200] * len(urls))).axes[0])
    for word in WORDS:
        assert f"{word}-*  250" in labels
    assert "… 2 more" not in labels  # too small for a label
    every_third = [f"https://a.test/{n % 3 or 'x'}{n:03}" for n in range(900)]
    labels = texts(plot_crawl(crawl(every_third, [200] * 900)).axes[0])
    assert [label for label in labels if label.endswith("  300")] == [
        "1*  300",
        "2*  300",
        "x*  300",
    ]


@pytest.mark.slow
def test_a_hundred_thousand_pages_are_few_boxes() -> None:
    urls = [f"https://a.test/{WORDS[n % 4]}-{n}.html" for n in range(100_000)]
    figure: Any = plot_crawl(crawl(urls, [200] * len(urls)))
    assert len(figure.axes[0].patches) < 500
    check_boxes(figure, len(urls))


def test_figures_follow_the_theme_of_the_notebook() -> None:
    df = crawl([f"https://a.test/x/{n}" for n in range(30)], [None] * 30)
    df["time_taken"] = [n / 10 for n in range(30)]
    for figure in (plot_crawl(df), plot_crawl(df, color="time_taken")):
        colors = [text.get_color() for text in figure.axes[0].texts]
        faces = [patch.get_facecolor() for patch in figure.findobj(Patch)]
        light, dark = pictures(figure)
        assert light[0] == "webdata-light"
        assert dark[0] == "webdata-dark"
        assert "display:none" in dark[1]
        assert light[2][0, 0].tolist() == [255, 255, 255]
        assert max(dark[2][0, 0]) < 25
        assert [text.get_color() for text in figure.axes[0].texts] == colors
        assert [patch.get_facecolor() for patch in figure.findobj(Patch)] == faces
        assert figure.get_facecolor() == (1, 1, 1, 1)
    with matplotlib.style.context("dark_background"):
        [(name, _, only)] = pictures(plot_crawl(df))
    assert name == "webdata-light"
    assert max(only[0, 0]) == 0


def pictures(figure: Any) -> list[tuple[str, str, Any]]:
    """Return class, style and pixels of the pictures of a figure in a notebook."""
    found = []
    for image in parse(figure._repr_html_()).find_all("img"):
        attributes: dict[str, Any] = dict(image.attrs)
        data = b64decode(attributes["src"].partition(",")[2])
        pixels = np.asarray(Image.open(BytesIO(data)).convert("RGB"))
        found.append((" ".join(attributes["class"]), attributes["style"], pixels))
    return found


@pytest.mark.parametrize("color", ["status", "time_taken"])
def test_what_is_written_on_dark_paper_can_be_read(color: str) -> None:
    urls = [f"https://a.test/{path}" for path in MANY_PATHS["flat with prefixes"]]
    df = crawl(urls, [200, None] * 500)
    df["time_taken"] = [n % 4 + n % 13 / 10 for n in range(len(urls))]
    figure = plot_crawl(df, color=color)
    figure.draw_without_rendering()
    with plots._on_dark_paper(figure):
        check_boxes(figure, len(urls))
        paper = luminance(figure.get_facecolor())
        labels = [*figure.texts, *figure.axes[1].texts, *figure.axes[1].get_xticklabels()]
        for text in labels:
            assert (luminance(text.get_color()) + 0.05) / (paper + 0.05) >= 4.5


def test_colours_show_any_column() -> None:
    urls = [f"https://a.test/{n}" for n in range(20)]
    df = crawl(urls, [200] * 20)
    df["time_taken"] = [n / 10 for n in range(20)]
    df["kind"] = ["a", "b", *[None] * 18]
    df["topic"] = [f"topic {n}" for n in range(20)]
    df["links"] = [["x"]] * 20
    timed = plot_crawl(df, color="time_taken")
    assert drawn(timed)
    assert timed.axes[-1].get_xlabel() == "mean time_taken (seconds)"
    assert "time_taken (seconds): mean 0.95" in timed.alt_text  # type: ignore[attr-defined]
    kinds = plot_crawl(df, color="kind").legends[0].get_texts()
    assert [text.get_text() for text in kinds] == ["a", "b"]
    topics = plot_crawl(df, color="topic").legends[0].get_texts()
    assert [text.get_text() for text in topics][-1] == "other"
    for wrong, message in (("tim_taken", "did you mean 'time_taken'"), ("links", "short texts")):
        with pytest.raises(InvalidArgument, match=message):
            plot_crawl(df, color=wrong)


def test_figures_have_alternative_text_in_notebooks() -> None:
    figure: Any = plot_crawl(crawl(["https://a.test/x/1", "https://a.test/x/<i>"], [200, 404]))
    assert figure.alt_text.startswith("https://a.test/: 2 pages. largest folders: x/ 2. status: ")
    images = parse(figure._repr_html_()).find_all("img")
    assert [image.attrs["alt"] for image in images] == [figure.alt_text] * 2
    assert figure._mime_()[0] == "text/html"
    ranks: Any = plot_ranks(history(["https://a.test/x"], ["https://a.test/x"]))
    assert "Best results: /x (best 1, last 1)" in ranks.alt_text
    assert repr(ranks) == f"Figure: {ranks.alt_text}"


@pytest.mark.parametrize("urls", [[], ["https://a.test/"], ["https://a.test/1/2/3/4/5/6", "x:"]])
def test_crawls_at_the_edge_are_drawn(urls: list[str]) -> None:
    assert drawn(plot_crawl(crawl(urls, [200] * len(urls))))


def test_ranks_have_the_first_at_the_top_and_show_who_came_and_left() -> None:
    a, b, c = "https://a.test/x", "https://b.test/", "https://c.test/"
    figure = plot_ranks(history([a, b], [b, "http://www.a.test/x/"], [b, c]))
    axes: Any = figure.axes[0]
    assert drawn(figure)
    assert axes.yaxis_inverted()
    lines = {tuple(line.get_ydata()) for line in axes.lines if line.get_marker() == "."}
    assert (2, 1, 1) in lines
    assert any(line[:2] == (1, 2) and line[2] != line[2] for line in lines)  # a left
    assert sorted(line.get_marker() for line in axes.lines) == [".", ".", ".", ">", "x"]
    assert sorted(texts(axes)) == ["a.test/x", "b.test", "c.test"]


def test_one_snapshot_and_more_lines_than_colours() -> None:
    many = history([f"https://s{n}.test/" for n in range(50)])
    figure = plot_ranks(many, max_lines=12)
    assert drawn(figure)
    assert len(figure.axes[0].lines) == 50


@pytest.mark.parametrize("call", [plot_crawl, plot_ranks])
@pytest.mark.parametrize("wrong", [None, pd.DataFrame(), pd.DataFrame({"url": ["x"]})])
def test_other_frames_are_refused(call: Any, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="df must be a frame of"):
        call(wrong)


def test_a_history_of_several_searches_or_of_nothing_is_refused() -> None:
    two = history(["https://a.test/", "https://b.test/"]).assign(query=["a", "b"])
    with pytest.raises(InvalidArgument, match="choose one by query"):
        plot_ranks(two)
    with pytest.raises(InvalidArgument, match="no result"):
        plot_ranks(two.iloc[:0])
    with pytest.raises(InvalidArgument, match="max_lines"):
        plot_ranks(two[two["query"] == "a"], max_lines=0)


def test_without_matplotlib_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "import pandas as pd; from webdata_nb import errors, plot_crawl\n"
        "df = pd.DataFrame(columns=['url', 'depth', 'status_code', 'success'])\n"
        "try:\n    plot_crawl(df)\nexcept errors.MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "webdata_nb[plot]" in done.stdout


def ranked(*days: dict[str, Any], wanted: int = 10) -> pd.DataFrame:
    """Return snapshots of ranks: a rank, None for no rank, or `failed` by query."""
    rows = []
    for day, states in enumerate(days, 1):
        at = pd.Timestamp(f"2026-11-{day:02d} 06:30", tz="UTC")
        for query, state in states.items():
            status = state if isinstance(state, str) else "ranked" if state else "not_ranked"
            rank = None if isinstance(state, str) else state
            url = f"https://own.test/{query}" if rank else None
            keys = (query, "engine_one", None, None, "own.test")
            rows.append((*keys, status, rank, url, wanted, "brave", f"{day:02d}", at))
    names = ["query", "engine", "language", "country", "site", "status", "rank", "url"]
    return pd.DataFrame(rows, columns=[*names, "num_results", "provider", "snapshot", "taken_at"])


def series(axes: Any) -> list[list[float | None]]:
    """Return the heights of the lines of an axes, without markers; None for a gap."""
    lines = [line for line in axes.lines if line.get_linestyle() == "-"]
    heights = [[float(y) for y in line.get_ydata()] for line in lines]
    return [[None if y != y else round(y, 2) for y in line] for line in heights]  # noqa: PLR0124


def test_a_failure_is_a_gap_and_what_has_no_rank_is_in_the_band() -> None:
    days: list[dict[str, Any]] = [{"a": 3}, {"a": "failed"}, {"a": None}, {"a": 1}]
    figure: Any = plot_ranks(ranked(*days))
    [axes] = figure.axes
    assert drawn(figure)
    assert axes.yaxis_inverted()
    [[first, gap, below, last]] = series(axes)
    assert (first, gap, last) == (3, None, 1)
    [band] = axes.patches
    top, bottom = sorted([band.get_y(), band.get_y() + band.get_height()])
    assert 3 < top < below < bottom
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["1", "2", "3", ">10"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "not among the first 10", "search failed"
    ]  # fmt: skip
    assert texts(axes) == ["a  1 ▲2"]
    assert figure.get_suptitle() == (
        "own.test: ranks of 1 query in 4 snapshots, 1 Nov 2026 to 4 Nov 2026"
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 6, 7, 20, 60])
@pytest.mark.parametrize("snapshots", [1, 2, 30])
def test_every_query_has_its_line_and_name(count: int, snapshots: int) -> None:
    if count * snapshots > 700:
        pytest.skip("takes seconds, and shows nothing that fewer do not")
    days = [{f"q{n}": 1 + (n + day) % 10 for n in range(count)} for day in range(snapshots)]
    figure: Any = plot_ranks(ranked(*days))
    assert drawn(figure)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == (1 if count <= 6 else count)
    lines = [line for axes in panels for line in series(axes)]
    assert [[round(y or 0) for y in line] for line in lines] == [
        [day[f"q{n}"] for day in days] for n in range(count)
    ]
    names = [*texts(panels[0]), *(axes.get_title(loc="left") for axes in panels)]
    assert {name.split()[0] for name in names if name} == {f"q{n}" for n in range(count)}
    if count <= 6:
        boxes = [text.get_window_extent() for text in panels[0].texts]
        for number, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_of_too_many_queries_those_that_moved_most_are_shown() -> None:
    days = [{f"q{n}": 5 for n in range(80)}, {f"q{n}": 5 if n < 78 else n - 77 for n in range(80)}]
    figure: Any = plot_ranks(ranked(*days), max_lines=8)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels][-2:] == ["q78", "q79"]
    assert [axes.get_title(loc="right") for axes in panels][-2:] == ["1 ▲4", "2 ▲3"]
    assert "ranks of 80 queries in 2 snapshots; the 8 that moved most" in figure.get_suptitle()
    assert "Moved most: q78 (1 ▲4), q79 (2 ▲3)" in figure.alt_text
    with pytest.raises(InvalidArgument, match="max_lines"):
        plot_ranks(ranked(*days), max_lines=0)


def test_what_differs_besides_the_query_is_in_the_names() -> None:
    df = ranked({"a": 3})
    both = pd.concat([df, df.assign(site="other.test", country="de")], ignore_index=True)
    figure: Any = plot_ranks(both)
    assert sorted(texts(figure.axes[0])) == ["a · de · other.test  3", "a · own.test  3"]
    assert figure.get_suptitle().startswith("2 sites: ranks of 1 query (2 series) in 1 snapshot, ")
    with pytest.raises(InvalidArgument, match="run rank_df first"):
        plot_ranks(df.iloc[:0])


def test_figures_follow_the_dark_theme_of_a_notebook() -> None:
    figure: Any = plot_ranks(ranked({"a": 3}))
    html = figure._repr_html_()
    assert '[data-jp-theme-light="false"]' in html
    assert 'class="webdata-light"' in html
