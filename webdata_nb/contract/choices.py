"""Lists the values of request options, without imports, so that commands start fast."""

from __future__ import annotations

from typing import Final, Literal, get_args

Engine = Literal["engine_one", "engine_two", "engine_three"]
ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)

Format = Literal[
    "markdown",
    "html",
    "raw_html",
    "links",
    "images",
    "headings",
    "structured_data",
    "screenshot",
]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

Strategy = Literal["bfs", "dfs", "bff"]

Purpose = Literal["search", "ai-input", "ai-train", "research"]
PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)

ArchiveSource = Literal["wayback", "commoncrawl"]
ARCHIVE_SOURCES: Final[tuple[ArchiveSource, ...]] = get_args(ArchiveSource)
CaptureMatch = Literal["exact", "prefix", "host", "domain"]
CAPTURE_MATCHES: Final[tuple[CaptureMatch, ...]] = get_args(CaptureMatch)
