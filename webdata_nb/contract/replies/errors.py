"""Models of error bodies."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from webdata_nb.contract.replies.base import Reply


class FieldProblem(Reply):
    """One invalid field of a 422, without its value."""

    loc: list[str | int] = Field(
        description="Path to the field: `body`, `query` or `header` first."
    )
    msg: str = Field(description="What is invalid, without the value.")
    type: str = Field(description="Error type, for programs.")


class ErrorBody(Reply):
    """Any error body: a message, or a list of fields for a 422."""

    detail: str | list[FieldProblem] = Field(
        description="A message, or a list of fields for a 422."
    )


class Refusal(Reply):
    """Every error body except that of a 422: a message without secrets."""

    detail: str = Field(description="What is wrong, without secrets.")


class LimitReached(Refusal):
    """The body of a 429: the limit that was reached, as a message and a code."""

    code: Literal["concurrency", "quota", "rate"] = Field(
        description="`concurrency`: as many active jobs and calls as the plan allows. "
        "`quota`: not enough credits. `rate`: too many requests or connections at once."
    )


class SourceFailure(Refusal):
    """The body of a 502: why an external source gave no usable reply."""

    code: Literal["refused"] | None = Field(
        default=None,
        description="`refused` if it does not accept the key or the request, so that another "
        "attempt would fail as well; absent for a passing failure.",
    )


class ValidationErrorReply(Reply):
    """The body of a 422: the invalid fields."""

    detail: list[FieldProblem] = Field(description="The invalid fields.")
