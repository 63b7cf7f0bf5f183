"""MinHash sketches of page texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.site.document import prose
from webdata_nb.page.content.quality import (
    SKETCH_SIZE,
    compute_masked_sketch,
    compute_sketch,
    sample_text,
)
from webdata_nb.service.crawl.facets import similarity


def sketch_of(title: str | None, text: str) -> bytes:
    return compute_sketch(sample_text(title, text))


def masked_sketch_of(title: str | None, text: str) -> bytes:
    return compute_masked_sketch(sample_text(title, text))


def test_small_changes_keep_high_similarity() -> None:
    text = prose("a long text", 2000)
    changed = text.replace(text.split()[700], "Zebra", 1)
    assert similarity(sketch_of("T", text), sketch_of("T", changed)) >= 0.9
    assert similarity(sketch_of("T", text), sketch_of("T", prose("another", 2000))) < 0.8
    assert similarity(sketch_of("T", prose("one")), sketch_of("T", prose("two"))) < 0.3


def test_link_targets_are_ignored() -> None:
    one, other = (f"See [the hat](http://x.test/hat?sid={sid}) now" for sid in ("1a", "2b"))
    assert sketch_of(None, one) == sketch_of(None, other) != b""


def test_masked_sketch_ignores_numbers_and_dates() -> None:
    march = "March 2026: nothing on Monday 2 or 9"
    assert masked_sketch_of("Month 3", march) == masked_sketch_of(
        "Month 11", march.replace("March", "November")
    )
    assert sketch_of("Month 3", march) != sketch_of("Month 11", march)
    assert masked_sketch_of("Hats", "3 hats") != masked_sketch_of("Bags", "3 bags")
    assert masked_sketch_of("Page 9", "at 9:30") == masked_sketch_of("Page 10", "at 12:05")
    assert masked_sketch_of("P", "\u0661\u0662 \uff15") == masked_sketch_of("P", "7 8")


def test_empty_sketch_has_no_similarity() -> None:
    assert sketch_of(None, "") == b""
    assert similarity(b"", b"") == 0.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_similarity_is_symmetric_share(one: str, other: str) -> None:
    first, second = sketch_of("t", one), sketch_of("t", other)
    assert 0.0 <= similarity(first, second) == similarity(second, first) <= 1.0
    assert len(first) <= SKETCH_SIZE * 4
    assert not first or similarity(first, first) == 1.0
