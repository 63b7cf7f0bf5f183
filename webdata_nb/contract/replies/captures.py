"""Models of the reply about the captures of web archives (ours)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, SuccessReply

IndexOutcome: TypeAlias = Literal["listed", "no_captures", "excluded", "unavailable"]


class CaptureEntry(Reply):
    """One capture in the index of a web archive."""

    url: str = Field(description="The URL that was captured.")
    captured_at: datetime = Field(description="When it was captured (UTC).")
    status_code: int | None = Field(
        default=None,
        description="The HTTP status; null where the index does not tell, as of a page that was "
        "the same as before.",
    )
    mime_type: str | None = Field(default=None, description="The type of the content.")
    digest: str | None = Field(
        default=None, description="SHA-1 of the content in base 32; equal for equal content."
    )
    length: int | None = Field(default=None, description="Bytes of the stored record.")
    archive_url: str | None = Field(
        default=None, description="Where the archive has it as it was sent."
    )
    index: str = Field(description="The index that has it: `wayback`, or a crawl of Common Crawl.")
    offset: int | None = Field(
        default=None,
        description="Of Common Crawl: first byte of the record, in the WARC file at `archive_url`.",
    )


class IndexRead(Reply):
    """What became of one question to one index."""

    index: str = Field(description="`wayback`, or the crawl of Common Crawl.")
    outcome: IndexOutcome = Field(
        description="`listed`; `no_captures` if it has none; `excluded` if the archive shows none "
        "of the site; `unavailable` if it did not answer as documented."
    )
    detail: str = Field(default="", description="Details of the outcome, in words.")
    captures: int = Field(default=0, description="Captures in this reply.")


class CapturesReply(SuccessReply):
    """Reply to POST /v1/captures."""

    captures: list[CaptureEntry] = Field(
        description="The captures in the order of the index. One with the content of the one "
        "before is left out where the index allows it."
    )
    indexes: list[IndexRead] = Field(description="The indexes that were asked.")
    cursor: str | None = Field(
        default=None, description="The `cursor` of the next reply; null at the end."
    )
