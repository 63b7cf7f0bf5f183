"""Texts as a few numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.site.document import prose
from webdata_nb.service.crawl.likeness import likeness
from webdata_nb.service.scrape.sketch import SIZE, shape, sketch


def test_texts_that_differ_in_little_are_nearly_alike() -> None:
    text = prose("a long text", 2000)
    changed = text.replace(text.split()[700], "Zebra", 1)
    assert likeness(sketch("T", text), sketch("T", changed)) >= 0.9
    assert likeness(sketch("T", text), sketch("T", prose("another", 2000))) < 0.8
    assert likeness(sketch("T", prose("one")), sketch("T", prose("two"))) < 0.3


def test_where_links_lead_does_not_count() -> None:
    one, other = (f"See [the hat](http://x.test/hat?sid={sid}) now" for sid in ("1a", "2b"))
    assert sketch(None, one) == sketch(None, other) != b""


def test_a_shape_masks_what_counts_on() -> None:
    march = "March 2026: nothing on Monday 2 or 9"
    assert shape("Month 3", march) == shape("Month 11", march.replace("March", "November"))
    assert sketch("Month 3", march) != sketch("Month 11", march)
    assert shape("Hats", "3 hats") != shape("Bags", "3 bags")
    assert shape("Page 9", "at 9:30") == shape("Page 10", "at 12:05")
    assert shape("P", "\u0661\u0662 \uff15") == shape("P", "7 8")


def test_a_text_without_words_is_like_no_other() -> None:
    assert sketch(None, "") == b""
    assert likeness(b"", b"") == 0.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_likeness_is_a_share_and_goes_both_ways(one: str, other: str) -> None:
    first, second = sketch("t", one), sketch("t", other)
    assert 0.0 <= likeness(first, second) == likeness(second, first) <= 1.0
    assert len(first) <= SIZE * 4
    assert not first or likeness(first, first) == 1.0
