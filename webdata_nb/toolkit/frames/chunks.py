"""Cuts the Markdown of pages into chunks for a corpus, along its headings and blocks.

Each chunk is a span of its page's Markdown. Near-duplicates are found by sketches of the smallest
hashes of their triples of words (bottom-k, Broder 1997), and confirmed by comparing all triples.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from webdata_nb.errors import InvalidArgument, MissingExtra
from webdata_nb.suggestions import closest, counted, did_you_mean, format_value, quoted
from webdata_nb.toolkit.frames import derive, frame, schemas
from webdata_nb.toolkit.frames.rows import decoded

if TYPE_CHECKING:
    from markdown_it.token import Token

By = Literal["headings", "size"]
Span = tuple[int, int]
TokenCounter = Callable[[str], int]
Anchors = defaultdict[str, deque[str | None]]
Hashes = npt.NDArray[np.uint64]

# A word: a run of letters and digits, one character of a script without spaces, or a sign.
_WORD: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
    r"|[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
    r"|[^\w\s]"
)
_COUNTERS: Final[Mapping[str, TokenCounter]] = {
    "words": lambda text: len(_WORD.findall(text)),
    "characters": len,
}
_LIBRARIES: Final = ("tiktoken", "transformers")
_LINE_END: Final = re.compile(r"\r\n?|\n")
# Where a text that is too long may be cut, the best places first.
_CUTS: Final = (
    re.compile(r"\r\n?|\n"),
    re.compile(r"[.!?\u2026][\"')\]\u201d\u2019]*\s+|[\u3002\uff01\uff1f\u061f\u0964]\s*"),
    re.compile(r"\s+"),
)
_SHINGLE_WORDS: Final = 3
_SKETCH_SIZE: Final = 64
# Rare hashes of a sketch by which candidates are found, and candidates of one hash at most.
_KEYS: Final = 8
_MAX_CANDIDATES: Final = 50
_FNV_PRIME: Final = np.uint64(0x100000001B3)
_LINK_TARGET: Final = re.compile(r"\]\([^)\s]*\)")
_FRAGMENT: Final = "!$&'()*+,;=:@/?-._~%"

_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "url": schemas.TEXT,
    "position": pa.int32(),
    "heading_path": schemas.TEXTS,
    "tokens": pa.int32(),
    "text": schemas.TEXT,
    "link": schemas.TEXT,
    "title": schemas.TEXT,
    **dict.fromkeys(("start", "end"), pa.int32()),
    **dict.fromkeys(("id", "duplicate_of"), schemas.TEXT),
    "similarity": pa.float64(),
}


def chunks_df(
    df: pd.DataFrame,
    *,
    size: int = 400,
    overlap: int = 0,
    by: By = "headings",
    tokens: str | TokenCounter = "words",
    near: float | None = 0.8,
) -> pd.DataFrame:
    r"""Cut the Markdown of pages into chunks, one row each, such as for a corpus or an index.

    A chunk is a piece of the page's `markdown` as it is: `markdown[start:end] == text`. It ends at
    a heading or between blocks where possible. Code blocks, rows of tables, items of lists,
    sentences and words are cut, in this order of reluctance, only where one alone exceeds `size`.

    Parameters
    ----------
    df
        A frame with `url` and `markdown`, such as of `crawl_df`. With `headings` as well
        (`formats=["markdown", "headings"]`), chunks have links to their headings.
    size
        Tokens of a chunk at most.
    overlap
        Tokens at the end of a chunk that the next one repeats at most: whole sentences, lines or
        blocks of the same section (of the same page with `by="size"`).
    by
        `"headings"`: every section begins a chunk, but a heading without a text of its own stays
        with the next one. `"size"`: short sections share a chunk.
    tokens
        What a token is: `"words"` (runs of letters and digits, single signs, and single characters
        of scripts without spaces), `"characters"`, `"tiktoken:<encoding>"`,
        `"transformers:<tokenizer>"` (of a library that is installed, and a tokenizer that is on
        this machine), or a function from a text to its number of tokens.
    near
        Share of common triples of words from which a chunk is a near-duplicate of an earlier one;
        None compares none.

    Returns
    -------
    pandas.DataFrame
        One row for each chunk, in the order of the pages. Pages without Markdown have none.

        ============ ============ ==============================================================
        column       dtype        meaning
        ============ ============ ==============================================================
        url          str          the page
        position     Int32        position among the chunks of its page, from 1
        heading_path list of str  the headings above the chunk, the outermost first
        tokens       Int32        its tokens
        text         str          the text
        link         str          `url` with the anchor of the chunk's heading, if known
        title        str          title of the page
        start, end   Int32        where the text is in the page's Markdown, in characters
        id           str          hash of the page's URL and the text: the same in a later crawl
        duplicate_of str          `id` of the first chunk that says nearly the same
        similarity   Float64      share of triples of words that both have, 0 to 1
        ============ ============ ==============================================================

        `attrs["webdata"]` says how it was made.

    Raises
    ------
    InvalidArgument
        A column is missing, or an argument has a value that is not allowed.
    MissingExtra
        tiktoken or transformers is named and not installed.

    Notes
    -----
    Near-duplicates are found by the 64 smallest hashes of the triples of words of each chunk
    (Broder, "On the resemblance and containment of documents", 1997), and confirmed with all
    triples. The result is the same in each run.

    Examples
    --------
    >>> import pandas as pd
    >>> text = "# Guide\n\nRead this first.\n\n## Install\n\nRun `pip`."
    >>> pages = pd.DataFrame({"url": ["https://a.test/"], "markdown": [text]})
    >>> chunks_df(pages)["text"].tolist()
    ['# Guide\n\nRead this first.', '## Install\n\nRun `pip`.']
    >>> chunks_df(pages)["heading_path"].tolist()
    [['Guide'], ['Guide', 'Install']]
    """
    urls = derive.page_urls(df)
    frame.require_column(df, "markdown", ': pass formats=["markdown"] to the call')
    for name, value, least in (("size", size, 1), ("overlap", overlap, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidArgument(
                f"{name} must be a whole number, {least} or more; it is {format_value(value)}"
            )
    if 2 * overlap > size:
        raise InvalidArgument(
            f"overlap must be half of size or less; it is {overlap}, and size {size}"
        )
    if by not in get_args(By):
        raise InvalidArgument(f"by must be 'headings' or 'size'; it is {format_value(by)}")
    is_share = isinstance(near, int | float) and not isinstance(near, bool) and 0 < near <= 1
    if near is not None and not is_share:
        raise InvalidArgument(
            f"near must be a share above 0, up to 1, or None; it is {format_value(near)}"
        )
    name, count = _counter(tokens)
    cut = _Cutter(count, size, overlap, by)
    columns = {name: df[name].tolist() for name in ("title", "headings") if name in df.columns}
    rows: list[dict[str, Any]] = []
    pages = 0
    for number, (url, text) in enumerate(zip(urls, df["markdown"].tolist(), strict=True)):
        if not isinstance(text, str):
            continue
        title = columns.get("title", [None] * len(df))[number]
        chunks = cut.chunks(text, columns.get("headings", [None] * len(df))[number])
        repeated = Counter[str]()
        for position, chunk in enumerate(chunks, 1):
            part = text[chunk.start : chunk.end]
            repeated[part] += 1
            named = f"{url}\0{repeated[part]}\0{part}".encode(errors="surrogatepass")
            rows.append(
                {
                    "id": blake2b(named, digest_size=12).hexdigest(),
                    "url": url,
                    "link": f"{url.partition('#')[0]}#{quote(chunk.anchor, safe=_FRAGMENT)}"
                    if chunk.anchor
                    else url,
                    "title": title if isinstance(title, str) else None,
                    "position": position,
                    "heading_path": chunk.headings,
                    "start": chunk.start,
                    "end": chunk.end,
                    "tokens": count(part),
                    "text": part,
                }
            )
        pages += bool(chunks)
    if near is not None:
        for number, (first, similarity) in _near_duplicates(rows, near):
            rows[number] |= {"duplicate_of": rows[first]["id"], "similarity": similarity}
    duplicates = sum("duplicate_of" in row for row in rows)
    attrs = {
        "kind": "chunks",
        "size": size,
        "overlap": overlap,
        "by": by,
        "tokens": name,
        "near": near,
        "line": f"{counted(len(rows), 'chunk')} of {counted(pages, 'page')}, up to {size:,} "
        f"tokens ({name}) each; {counted(duplicates, 'near-duplicate')}; "
        f"{frame.receipt_text(df, 'line')}".rstrip("; "),
    }
    table = pa.table(
        [pa.array([row.get(name) for row in rows], kind) for name, kind in _COLUMNS.items()],
        names=list(_COLUMNS),
    )
    return frame.build(table, attrs=attrs, dtype_backend=frame.backend_of(df))


def _counter(tokens: object) -> tuple[str, TokenCounter]:
    """Return the name of a counter, and the counter."""
    if callable(tokens):

        def count(text: str) -> int:
            number: object = tokens(text)
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
                raise InvalidArgument(
                    "tokens must return the number of tokens of a text; it returned "
                    f"{format_value(number)}"
                )
            return int(number)

        return getattr(tokens, "__qualname__", type(tokens).__name__), count
    if isinstance(tokens, str) and tokens in _COUNTERS:
        return tokens, _COUNTERS[tokens]
    library, _, name = tokens.partition(":") if isinstance(tokens, str) else ("", "", "")
    if library not in _LIBRARIES or not name:
        suggestion = did_you_mean(quoted(closest(tokens, _COUNTERS)))
        raise InvalidArgument(
            "tokens must be 'words', 'characters', 'tiktoken:<encoding>', "
            f"'transformers:<tokenizer>' or a function; it is {format_value(tokens)}{suggestion}"
        )
    try:
        module: Any = import_module(library)
        if library == "tiktoken":
            encode: Any = partial(module.get_encoding(name).encode, disallowed_special=())
        else:
            tokenizer = module.AutoTokenizer.from_pretrained(name, local_files_only=True)
            encode = partial(tokenizer.encode, add_special_tokens=False)
    except ImportError:
        raise MissingExtra(f"tokens={tokens!r} needs {library}: pip install {library}") from None
    except (ValueError, OSError) as error:
        raise InvalidArgument(f"tokens={tokens!r}: {library} cannot load it: {error}") from None
    return f"{tokens}", lambda text: len(encode(text))


# Blocks


@dataclass(slots=True)
class _Block:
    """A block of a text with the blocks in it; `level` is that of a heading, 0 of others."""

    start: int
    end: int
    kind: str
    level: int = 0
    heading: str = ""
    children: list[_Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Chunk:
    start: int
    end: int
    headings: list[str]
    anchor: str | None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A span that is not cut further, with the headings above it; `divides` of a text."""

    start: int
    end: int
    headings: tuple[tuple[int, str, str | None], ...]
    is_heading: bool = False
    divides: bool = False


@lru_cache(maxsize=1)
def _parser() -> Any:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only where chunks are made

    return MarkdownIt("commonmark").enable("table")


def _blocks(text: str) -> list[_Block]:
    """Return the blocks of a text, which together have all of its lines that are not blank."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text)]
    root = _Block(0, len(text), "root")
    open_blocks = [root]
    tokens: Sequence[Token] = _parser().parse(text)
    for number, token in enumerate(tokens):
        if token.nesting < 0:
            open_blocks.pop()
        elif token.type == "inline" or token.map is None:
            if token.nesting > 0:  # a cell of a table
                open_blocks.append(_Block(0, 0, "cell"))
        else:
            first, last = (starts[min(line, len(starts) - 1)] for line in token.map)
            kind = token.type.removesuffix("_open")
            block = _Block(first, last, kind)
            if kind == "heading":
                inline = tokens[number + 1]
                parts = (
                    each.content or " " * (each.type == "softbreak")
                    for each in inline.children or ()
                )
                block.level, block.heading = int(token.tag[1]), " ".join("".join(parts).split())
            open_blocks[-1].children.append(block)
            if token.nesting > 0:
                open_blocks.append(block)
    _add_gaps(root, text)
    return root.children


def _add_gaps(block: _Block, text: str) -> None:
    """Add what no block has: definitions of links, and the second line of a table."""
    if not block.children or block.kind in {"tr", "paragraph", "heading"}:
        block.children = []
        return
    children, at = list[_Block](), block.start
    for child in [*block.children, _Block(block.end, block.end, "end")]:
        if text[at : child.start].strip():
            if block.kind == "table" and children:
                children[-1].end = child.start  # a header is nothing without its line
            else:
                children.append(_Block(at, child.start, "gap"))
        if child.kind != "end":
            children.append(child)
        at = max(at, child.end)
    block.children = children
    for child in children:
        _add_gaps(child, text)


class _Cutter:
    """Cuts texts into chunks of a size."""

    def __init__(self, count: TokenCounter, size: int, overlap: int, by: By) -> None:
        self._count, self._size, self._overlap, self._by = count, size, overlap, by

    def chunks(self, text: str, listed: object) -> list[_Chunk]:
        """Return the chunks of a page; `listed` are its headings with their anchors, if known."""
        items = decoded(listed, "headings")
        anchors: Anchors = defaultdict(deque)
        for item in items if hasattr(items, "__iter__") else ():
            if isinstance(item, Mapping) and isinstance(item.get("text"), str):
                anchors[" ".join(item["text"].split())].append(item.get("anchor"))
        chunks: list[_Chunk] = []
        section: list[_Piece] = []
        for piece in self._pieces(text, anchors):
            begins = piece.is_heading and not all(each.is_heading for each in section)
            if begins and self._by == "headings":
                chunks += self._packed(text, section)
                section = []
            section.append(piece)
        return [*chunks, *self._packed(text, section)]

    def _pieces(self, text: str, anchors: Anchors) -> Iterator[_Piece]:
        """Yield the pieces of a text in their order."""
        path: list[tuple[int, str, str | None]] = []
        for block in _blocks(text):
            if block.level:
                path = [each for each in path if each[0] < block.level]
                anchor = anchors[block.heading].popleft() if anchors[block.heading] else None
                path.append((block.level, block.heading, anchor))
            for start, end, divides in self._divided(text, block):
                yield _Piece(start, end, tuple(path), bool(block.level), divides)

    def _divided(self, text: str, block: _Block) -> Iterator[tuple[int, int, bool]]:
        """Yield a block, or its parts if it exceeds the size; and whether a part divides a text."""
        start, end = _stripped(text, block.start, block.end)
        divides = block.kind in {"paragraph", "gap"}
        if start >= end:
            return
        if self._fits(text, start, end):
            yield start, end, divides
        elif block.children:
            for child in block.children:
                yield from self._divided(text, child)
        else:
            for first, last in self._cut(text, start, end, 0):
                yield first, last, divides

    def _cut(self, text: str, start: int, end: int, kind: int) -> Iterator[Span]:
        """Yield the parts of a text that exceeds the size: lines, sentences, words, characters."""
        start, end = _stripped(text, start, end)
        if start >= end:
            return
        if self._fits(text, start, end):
            yield start, end
        elif kind < len(_CUTS):
            places = [match.end() for match in _CUTS[kind].finditer(text, start, end)]
            for first, last in zip([start, *places], [*places, end], strict=True):
                yield from self._cut(text, first, last, kind + 1)
        else:
            while start < end:
                # The longest beginning that fits, one character at least.
                low, high = 1, end - start
                while low < high:
                    middle = (low + high + 1) // 2
                    fits = self._fits(text, start, start + middle)
                    low, high = (middle, high) if fits else (low, middle - 1)
                yield start, start + low
                start += low

    def _packed(self, text: str, pieces: Sequence[_Piece]) -> Iterator[_Chunk]:
        """Yield the chunks of a section: as many pieces as fit, headings with what follows."""
        first = 0
        start = pieces[0].start if pieces else 0
        while first < len(pieces):
            end = first + 1
            while end < len(pieces) and self._fits(text, start, pieces[end].end):
                end += 1
            if end < len(pieces):  # no heading at the end
                last = end
                while last > first and pieces[last - 1].is_heading:
                    last -= 1
                end = last if last > first else end
            chunk = pieces[first:end]
            own = next((each for each in chunk if not each.is_heading), chunk[-1])
            anchors = [anchor for _, _, anchor in own.headings if anchor]
            yield _Chunk(
                start,
                chunk[-1].end,
                [heading for _, heading, _ in own.headings],
                anchors[-1] if anchors else None,
            )
            if end < len(pieces):
                start = self._start_with_overlap(text, chunk, pieces[end])
            first = end

    def _fits(self, text: str, start: int, end: int) -> bool:
        return self._count(text[start:end]) <= self._size

    def _start_with_overlap(self, text: str, before: Sequence[_Piece], piece: _Piece) -> int:
        """Return where a chunk starts that repeats the end of the one before it."""
        start = piece.start
        if not self._overlap or piece.is_heading:
            return start
        places: list[int] = []
        for each in before:
            places.append(each.start)
            if each.divides:
                found = (cut.finditer(text, each.start, each.end) for cut in _CUTS[:2])
                ends = sorted(match.end() for matches in found for match in matches)
                places += [place for place in ends if place < each.end]
        for place in reversed(places):
            repeated = self._count(text[place : before[-1].end])
            if repeated > self._overlap or not self._fits(text, place, piece.end):
                break
            start = place
        return start


def _stripped(text: str, start: int, end: int) -> Span:
    """Return a span without the blank lines before it, and the white space behind it."""
    part = text[start:end]
    blank = len(part) - len(part.lstrip())
    # The indentation of a first line may have a meaning.
    first = part.rfind("\n", 0, blank) + 1
    return start + (first if part.strip() else len(part)), start + len(part.rstrip())


# Near-duplicates


def _near_duplicates(
    rows: Sequence[Mapping[str, Any]], near: float
) -> Iterator[tuple[int, tuple[int, float]]]:
    """Yield the rows that say nearly the same as an earlier one, with that and the similarity.

    A row is compared with the first one of each group of near-duplicates only.
    """
    vocabulary: dict[str, int] = {}
    shingles = [_shingles(row["text"], vocabulary) for row in rows]
    sketches = [each[:_SKETCH_SIZE] for each in shingles]
    hashes, frequencies = np.unique(
        np.concatenate([*sketches, np.empty(0, np.uint64)]), return_counts=True
    )
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for number, (row, sketch) in enumerate(zip(rows, sketches, strict=True)):
        counts = frequencies[np.searchsorted(hashes, sketch)]
        shared = np.flatnonzero(counts > 1)
        keys = sketch[shared[np.argsort(counts[shared], kind="stable")][:_KEYS]].tolist()
        found: tuple[int, float] | None = None
        for first in sorted({each for key in keys for each in groups[key]}):
            other = rows[first]
            overlaps = row["url"] == other["url"] and row["start"] < other["end"]
            common = np.intersect1d(shingles[first], shingles[number], assume_unique=True).size
            similarity = common / (len(shingles[first]) + len(shingles[number]) - common)
            if not overlaps and similarity >= near:
                found = first, round(similarity, 4)
                break
        if found is not None:
            yield number, found
            continue
        for key in keys:
            if len(groups[key]) < _MAX_CANDIDATES:
                groups[key].append(number)


def _shingles(text: str, vocabulary: dict[str, int]) -> Hashes:
    """Return the hashes of all triples of words of a text, ascending; of a shorter text, one."""
    words = _WORD.findall(_LINK_TARGET.sub("]", text).lower())
    for word in words:
        if word not in vocabulary:
            digest = blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()
            vocabulary[word] = int.from_bytes(digest)
    hashes = np.array([vocabulary[word] for word in words], np.uint64)
    width = min(_SHINGLE_WORDS, len(hashes))
    mixed = np.zeros(max(0, len(hashes) - width + 1) if width else 0, np.uint64)
    for place in range(width):
        # The order of the words counts: each step multiplies (FNV-1a, with 64 bits).
        mixed = (mixed ^ hashes[place : place + len(mixed)]) * _FNV_PRIME
    return np.unique(mixed ^ (mixed >> np.uint64(32)))
