"""Texts as a few numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.site.document import prose
from webdata_nb.service.content.minhash import SKETCH_SIZE, masked_sketch, sample_text, text_sketch
from webdata_nb.service.crawl.similarity import similarity


def sketched(title: str | None, text: str) -> bytes:
    return text_sketch(sample_text(title, text))


def shaped(title: str | None, text: str) -> bytes:
    return masked_sketch(sample_text(title, text))


def test_texts_that_differ_in_little_are_nearly_alike() -> None:
    text = prose("a long text", 2000)
    changed = text.replace(text.split()[700], "Zebra", 1)
    assert similarity(sketched("T", text), sketched("T", changed)) >= 0.9
    assert similarity(sketched("T", text), sketched("T", prose("another", 2000))) < 0.8
    assert similarity(sketched("T", prose("one")), sketched("T", prose("two"))) < 0.3


def test_where_links_lead_does_not_count() -> None:
    one, other = (f"See [the hat](http://x.test/hat?sid={sid}) now" for sid in ("1a", "2b"))
    assert sketched(None, one) == sketched(None, other) != b""


def test_a_shape_masks_what_counts_on() -> None:
    march = "March 2026: nothing on Monday 2 or 9"
    assert shaped("Month 3", march) == shaped("Month 11", march.replace("March", "November"))
    assert sketched("Month 3", march) != sketched("Month 11", march)
    assert shaped("Hats", "3 hats") != shaped("Bags", "3 bags")
    assert shaped("Page 9", "at 9:30") == shaped("Page 10", "at 12:05")
    assert shaped("P", "\u0661\u0662 \uff15") == shaped("P", "7 8")


def test_a_text_without_words_is_like_no_other() -> None:
    assert sketched(None, "") == b""
    assert similarity(b"", b"") == 0.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_likeness_is_a_share_and_goes_both_ways(one: str, other: str) -> None:
    first, second = sketched("t", one), sketched("t", other)
    assert 0.0 <= similarity(first, second) == similarity(second, first) <= 1.0
    assert len(first) <= SKETCH_SIZE * 4
    assert not first or similarity(first, first) == 1.0
