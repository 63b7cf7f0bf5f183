"""Models of the reply about verified values (ours)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, SuccessReply

PageVerdict: TypeAlias = Literal["compared", "gone", "changed", "failed"]
ValueVerdict: TypeAlias = Literal["verbatim", "derived", "unsupported"]


class VerifiedValue(Reply):
    """What a page says of one extracted value."""

    pointer: str = Field(description="JSON pointer of the value in the extracted data.")
    verdict: ValueVerdict = Field(
        description="`verbatim` as it is on the page, `derived` in another notation, or "
        "`unsupported`: not on the page, or there for another record or field."
    )
    start: int | None = Field(
        default=None, description="First character of its place in the page's source."
    )
    end: int | None = Field(default=None, description="Character after its place.")
    quote: str | None = Field(
        default=None, description="The source at that place, at most 300 characters."
    )
    reason: str = Field(description="Why it has this verdict; empty if that is clear.")


class VerifiedPage(Reply):
    """What became of one page, and its values if it was compared."""

    job_id: str = Field(description="The job, as in the request.")
    url: str = Field(description="The URL, as in the request.")
    outcome: PageVerdict = Field(
        description="`compared`; `gone` if the page is not stored or not any more; `changed` if "
        "it is another one than that of the digest; `failed` if it took too much time or memory, "
        "or the stored page is damaged."
    )
    digest: str | None = Field(
        default=None, description="SHA-256 of the stored source, the first 32 hex digits."
    )
    detail: str = Field(default="", description="Details of the outcome, in words.")
    values: list[VerifiedValue] = Field(
        default_factory=list, description="The values that are not null, in their order."
    )


class VerifyReply(SuccessReply):
    """Reply to POST /v1/verify."""

    pages: list[VerifiedPage] = Field(description="The pages, in the order of the request.")
