"""HTML output in notebooks is readable, bounded in size, and inert for any text of a page."""

from __future__ import annotations

import hashlib
import io
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image
from turbohtml import parse

from tests.display import hostile, html_samples
from tests.requirements import require
from webdata_nb import show
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.display import tables
from webdata_nb.toolkit.frames import frame, rows, schemas


def picture(width: int = 900, height: int = 600, *, noise: bool = False) -> bytes:
    out = io.BytesIO()
    data = random.Random(7).randbytes(width * height * 3) if noise else None
    image = (
        Image.frombytes("RGB", (width, height), data) if data else Image.new("RGB", (width, height))
    )
    image.save(out, "PNG")
    return out.getvalue()


def results() -> pd.DataFrame:
    listed: list[dict[str, Any]] = [
        {"rank": 1, "url": "https://a.test/?x=1&y=2", "title": "A & B", "snippet": "s" * 500},
        {"rank": 2, "url": "javascript:alert(1)", "title": "<b>bold</b>", "snippet": None},
    ]
    attrs = {"kind": "search", "line": "search <x>: 2 results"}
    table = rows.to_table("search", listed)
    return frame.build(table, columns=schemas.frame_columns("search"), attrs=attrs)


def test_a_rank_table_has_links_and_folds_what_is_long() -> None:
    page = parse(show(results())._repr_html_())
    links = [dict(each.attrs) for each in page.find_all("a")]
    assert links == [
        {
            "href": "https://a.test/?x=1&y=2",
            "style": "text-decoration:underline #8888",
            "rel": ["noopener", "noreferrer"],
            "target": "_blank",
        }
    ]
    assert [each.text for each in page.find_all("th")] == [
        "rank",
        "url",
        "success",
        "scraped",
        "title",
        "snippet",
    ]
    assert len(page.find_all("details")) == 1
    assert "<b>bold</b>" in page.text
    assert "empty here: provider, error, id, extra" in page.text
    assert "search <x>: 2 results" in page.text


def test_rows_and_texts_are_bounded_and_say_so() -> None:
    df = pd.DataFrame({"markdown": ["word " * 10_000] * 1_000})
    sheet = show(df, max_rows=3)
    assert repr(sheet) == "Sheet of 3 rows"
    assert "997 more rows" in sheet._repr_html_()
    assert "46,000 characters more" in sheet._repr_html_()
    assert len(sheet._repr_html_()) < 3 * 5_000


def test_screenshots_are_small_pictures_and_there_are_not_too_many() -> None:
    shot = picture(640, 2500, noise=True)
    df = pd.DataFrame({"screenshot": [shot] * 2 + [picture()] * 60 + [b"no picture"]})
    markup = show(df, max_rows=100)._repr_html_()
    images = [str(each.attrs["src"]) for each in parse(markup).find_all("img")]
    assert len(images) == 40
    assert max(map(len, images)) < 400_000
    assert "10 bytes" in markup
    assert list(hostile.dangers(markup)) == []


def test_a_row_cannot_choose_a_file_of_the_disk(tmp_path: Path) -> None:
    data = picture()
    name = hashlib.sha256(data).hexdigest()
    for each in (tmp_path / "private.png", tmp_path / name):
        each.write_bytes(data)
    private = {"file": str(tmp_path / "private.png"), "sha256": name}
    cached = {"file": str(tmp_path / name), "sha256": name}
    df = pd.DataFrame({"preview": [private, cached], "structured_data": [cached, None]})
    assert show(df)._repr_html_().count("<img") == 1


def test_every_kind_of_value_is_drawn() -> None:
    df = pd.DataFrame(
        {
            "taken_at": pd.Series([pd.Timestamp("2026-01-02 03:04:05Z"), pd.NaT]),
            "links": [["http://a.test/"], ["http://a.test/", "http://b.test/"]],
            "time": [0.123456, float("nan")],
            "success": pd.array([True, None], dtype="boolean"),
            "data": [{"a": [1]}, {}],
        }
    )
    text = parse(show(df)._repr_html_()).text
    for cell in ("2026-01-02 03:04", "1 link", "2 links", "0.12", "True", '{"a": [1]}'):
        assert cell in text
    assert not any(word in text for word in ("nan", "NaT", "NA"))
    assert show(df.iloc[:0])._repr_html_().count("<th ") == 5
    assert show(pd.DataFrame())._repr_html_()
    assert show(pd.DataFrame([[1, 2]], columns=["a", "a"]))._repr_html_().count("<td") == 2


def test_half_a_character_can_be_saved() -> None:
    df = pd.DataFrame({"a": pd.Series(["x\ud800y"], dtype=object)})
    assert "x?y" in show(df)._repr_html_().encode().decode()


@pytest.mark.parametrize("wrong", [0, -1, True, "5"])
def test_max_rows_is_a_number_of_rows(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="max_rows"):
        show(results(), max_rows=wrong)


def test_only_a_frame_is_shown() -> None:
    with pytest.raises(InvalidArgument, match="DataFrame"):
        show([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "is_link"),
    [
        ("https://a.test/ü?q=1#x", True),
        ("HTTP://A.test/", True),
        ("javascript:alert(1)", False),
        ("//a.test/", False),
        ("https:a.test", False),
        ("https://", False),
        ("https://bank.test@evil.test/", False),
        ("https://a.test/\nx", False),
        (" https://a.test/", False),
        ("data:text/html,x", False),
    ],
)
def test_links_lead_to_the_web_alone(text: str, *, is_link: bool) -> None:
    assert tables.is_web_address(text) is is_link


def test_own_payloads_in_every_field_are_text() -> None:
    for markup in html_samples.markups(list(hostile.OWN)):
        assert list(hostile.dangers(markup)) == []


@pytest.mark.slow
def test_payloads_of_the_corpora_in_every_field_are_text() -> None:
    texts = hostile.texts(require("corpora"))
    assert len(texts) == 223 + 515
    for markup in html_samples.markups(texts):
        assert list(hostile.dangers(markup)) == []


def test_what_would_be_dangerous_is_noticed() -> None:
    unnoticed = [text for text in hostile.OWN if text.startswith("<") and "!--" not in text]
    assert [text for text in unnoticed if not list(hostile.dangers(text))] == []
