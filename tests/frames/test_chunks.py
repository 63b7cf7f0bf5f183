"""Chunks of pages: spans of their Markdown that keep blocks whole, with headings and duplicates."""

from __future__ import annotations

import random
import re
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb import chunks_df
from webdata_nb.errors import InvalidArgument, MissingExtra

GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho"
WORDS = [*GREEK.split(), "統計", "資料", "données", "größe"]


def sentence(rng: random.Random, length: int = 9) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(length)) + "."


def document(seed: int, blocks: int = 12) -> tuple[str, list[str], list[str]]:
    """Return a Markdown text with its code blocks and the rows of its tables."""
    rng = random.Random(seed)
    parts, code, rows = [f"# Page {seed}"], list[str](), list[str]()
    for _ in range(blocks):
        match rng.randrange(7):
            case 0:
                parts.append("#" * rng.randint(1, 4) + f" {rng.choice(WORDS)} {rng.choice(WORDS)}")
            case 1:
                lines = [f"{rng.choice('abcd')} = {n}" for n in range(rng.randint(1, 12))]
                lines.insert(len(lines) // 2, "")
                code.append("```py\n" + "\n".join(lines) + "\n```")
                parts.append(code[-1])
            case 2:
                body = [f"| {rng.choice(WORDS)} | {n} |" for n in range(rng.randint(1, 15))]
                rows += body
                parts.append("\n".join(["| name | number |", "| --- | ---: |", *body]))
            case 3:
                parts.append("\n".join(f"- {sentence(rng, 5)}\n  more" for _ in range(4)))
            case 4:
                parts.append("> " + sentence(rng) + "\n> " + sentence(rng))
            case 5:
                parts.append('[ref]: https://a.test/ "A title"')
            case _:
                parts.append(" ".join(sentence(rng) for _ in range(rng.randint(1, 6))))
    return "\n\n".join(parts) + "\n", code, rows


def frame_of(*texts: str, **columns: list[Any]) -> pd.DataFrame:
    urls = [f"https://a.test/{number}" for number in range(len(texts))]
    return pd.DataFrame({"url": urls, "markdown": list(texts), **columns})


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1, 7, 30, 90, 400]),
    by=st.sampled_from(["headings", "size"]),
    tokens=st.sampled_from(["words", "characters"]),
)
def test_text_is_covered_once_and_no_chunk_is_too_large(
    seed: int, size: int, by: Any, tokens: str
) -> None:
    text, _, _ = document(seed)
    df = chunks_df(frame_of(text), size=size, by=by, tokens=tokens, near=None)
    assert [text[a:b] for a, b in zip(df["start"], df["end"], strict=True)] == df["text"].tolist()
    assert df["tokens"].max() <= size
    assert df["position"].tolist() == list(range(1, len(df) + 1))
    assert df["id"].is_unique
    ends = [0, *df["end"]]
    gaps = [text[end:start] for end, start in zip(ends, [*df["start"], len(text)], strict=True)]
    assert "".join(gaps).strip() == ""  # also: no chunk begins before the end of the last


@given(seed=st.integers(0, 10**6), by=st.sampled_from(["headings", "size"]))
def test_code_and_rows_of_tables_stay_whole(seed: int, by: Any) -> None:
    text, code, rows = document(seed)
    size = max([60, *(len(re.findall(r"\w+|[^\w\s]", block)) for block in code)])
    chunks = chunks_df(frame_of(text), size=size, by=by)["text"].tolist()
    for block in [*code, *rows]:
        assert any(block in chunk for chunk in chunks)


@given(seed=st.integers(0, 10**6), overlap=st.sampled_from([10, 40]))
def test_overlap_repeats_the_end_of_the_last_chunk(seed: int, overlap: int) -> None:
    rng = random.Random(seed)
    text = "\n\n".join(" ".join(sentence(rng) for _ in range(5)) for _ in range(8))
    df = chunks_df(frame_of(text), size=100, overlap=overlap, near=None)
    assert df["tokens"].max() <= 100
    count = chunks_df(frame_of(text), size=100, near=None)
    repeated = 0
    for (_, before), (_, after) in zip(df[:-1].iterrows(), df[1:].iterrows(), strict=True):
        assert before["start"] < after["start"] <= before["end"] + 2
        shared = text[after["start"] : before["end"]]
        # Whole sentences, and no more of them than fit.
        assert shared == "" or shared.endswith(".")
        assert len(re.findall(r"\w+|[^\w\s]", shared)) <= overlap
        repeated += bool(shared)
    assert repeated >= (len(df) - 1 if overlap == 40 else 0)
    assert len(df) >= len(count)


def test_sections_and_their_headings() -> None:
    text = (
        "Intro.\n\n# A `code`\n\n## B\n\nOne.\n\n### C\n\nTwo.\n\n"
        "## D *x*\n\nThree.\n\n# E\n\nFour.\n"
    )
    df = chunks_df(frame_of(text, title=["T"]))
    assert df["heading_path"].tolist() == [
        [], ["A code", "B"], ["A code", "B", "C"], ["A code", "D x"], ["E"],
    ]  # fmt: skip
    assert df["text"][1] == "# A `code`\n\n## B\n\nOne."
    assert set(df["title"]) == {"T"}
    together = chunks_df(frame_of(text), by="size")
    assert together["text"].tolist() == [text.strip()]
    assert chunks_df(frame_of(text), by="size", size=12)["text"].str.endswith("#").sum() == 0


def test_a_heading_is_not_the_end_of_a_chunk() -> None:
    text = "One two three four.\n\n# A\n\nFive six seven eight nine.\n"
    df = chunks_df(frame_of(text), by="size", size=8)
    assert df["text"].tolist() == ["One two three four.", "# A\n\nFive six seven eight nine."]


def test_links_lead_to_headings() -> None:
    text = "# A\n\nx\n\n## Example\n\ny\n\n## Example\n\nz\n\n### Deep\n\nw\n"
    headings = [
        {"level": 1, "text": "A", "anchor": "a"},
        {"level": 2, "text": "Example", "anchor": "example"},
        {"level": 2, "text": "Example", "anchor": "größe 2"},
        {"level": 3, "text": "Deep", "anchor": None},
    ]
    url = "https://a.test/0"
    links = chunks_df(frame_of(text, headings=[headings]))["link"].tolist()
    assert links == [f"{url}#a", f"{url}#example", *[f"{url}#gr%C3%B6%C3%9Fe%202"] * 2]
    assert set(chunks_df(frame_of(text))["link"]) == {url}


def exact_similarity(one: str, other: str) -> float:
    def triples(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+|[^\w\s]", text.lower())
        return {tuple(words[n : n + 3]) for n in range(len(words) - 2)}

    a, b = triples(one), triples(other)
    return len(a & b) / len(a | b)


def test_near_duplicates_are_those_of_a_comparison_of_all_pairs() -> None:
    rng = random.Random(5)
    english = [word for word in WORDS if word.isascii()] + [f"w{n}" for n in range(300)]
    originals = [" ".join(rng.choices(english, k=120)) for _ in range(40)]
    texts = list(originals)
    for _ in range(160):
        words = rng.choice(originals).split()
        for place in rng.sample(range(len(words)), rng.choice([0, 1, 2, 3, 5, 8, 20])):
            words[place] = rng.choice(english)
        texts.append(" ".join(words))
    df = chunks_df(frame_of(*texts), near=0.8)
    numbers = {identity: number for number, identity in enumerate(df["id"])}
    found = {
        number: numbers[first]
        for number, first in enumerate(df["duplicate_of"].tolist())
        if isinstance(first, str)
    }
    expected: dict[int, int] = {}
    for number, text in enumerate(texts):
        for first in range(number):
            if first not in expected and exact_similarity(texts[first], text) >= 0.8:
                expected[number] = first
                break
    assert found == expected
    assert len(expected) > 50
    for number, first in found.items():
        assert df["similarity"][number] == pytest.approx(
            exact_similarity(texts[first], texts[number]), abs=1e-4
        )
    assert chunks_df(frame_of(*texts), near=None)["duplicate_of"].isna().all()


def test_chunks_are_the_same_in_each_run_and_ids_survive_other_changes() -> None:
    text, _, _ = document(3)
    df, again = chunks_df(frame_of(text)), chunks_df(frame_of(text))
    assert df.equals(again)
    df = chunks_df(frame_of(f"{text}\nThe end."))
    changed = chunks_df(frame_of(f"{text}\nThe end.\n\n# New\n\nA new section.\n"))
    assert df["id"].tolist() == changed["id"].tolist()[: len(df)]


def test_pages_without_text_and_repeated_sections() -> None:
    df = chunks_df(frame_of("Same.", "", None, "# A\n\nx\n\n# A\n\nx\n"))  # type: ignore[arg-type]
    assert df["position"].tolist() == [1, 1, 2]
    assert df["duplicate_of"].tolist()[2] == df["id"][1]
    assert df["id"].is_unique
    empty = chunks_df(frame_of())
    assert empty.dtypes.equals(df.dtypes)
    assert "0 chunks of 0 pages" in empty.attrs["webdata"]["line"]


def test_counters() -> None:
    assert chunks_df(frame_of("Zwei Wörter, 統計資料"))["tokens"].tolist() == [7]
    own = chunks_df(frame_of("a b c d"), size=2, tokens=lambda text: len(text.split()))
    assert own["text"].tolist() == ["a b", "c d"]
    assert "lambda" in own.attrs["webdata"]["tokens"]
    with pytest.raises(InvalidArgument, match="must return the number of tokens"):
        chunks_df(frame_of("a"), tokens=lambda _: "one")  # type: ignore[arg-type,return-value]
    for name in ("tiktoken:cl100k_base", "transformers:bert"):
        with pytest.raises((MissingExtra, InvalidArgument), match=name):
            chunks_df(frame_of("a"), tokens=name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size must be a whole number, 1 or more; it is 0"),
        ({"size": True}, "size must be a whole number"),
        ({"overlap": -1}, "overlap must be a whole number, 0 or more"),
        ({"size": 10, "overlap": 6}, "overlap must be half of size or less; it is 6, and size 10"),
        ({"by": "page"}, "by must be 'headings' or 'size'; it is 'page'"),
        ({"near": 0}, "near must be a share above 0"),
        ({"tokens": "word"}, "did you mean 'words'"),
        ({"tokens": 5}, "tokens must be 'words'"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        chunks_df(frame_of("a"), **arguments)


def test_frames_without_markdown_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r'pass formats=\["markdown"\]'):
        chunks_df(pd.DataFrame({"url": ["https://a.test/"]}))
