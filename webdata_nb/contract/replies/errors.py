"""Models of error bodies."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from webdata_nb.contract.replies.base import Reply


class FieldProblem(Reply):
    """One wrong field of a 422; never echoes the value."""

    loc: list[str | int] = Field(
        description="Path to the field: `body`, `query` or `header` first."
    )
    msg: str = Field(description="What is wrong with it, without its value.")
    type: str = Field(description="Kind of problem, for programs.")


class ErrorBody(Reply):
    """Every error body: a sentence, or for 422 a list of fields."""

    detail: str | list[FieldProblem] = Field(description="A sentence, or for 422 a list of fields.")


class Refusal(Reply):
    """Every error body but that of a 422: one sentence, without anything secret."""

    detail: str = Field(description="What is wrong, in a sentence without anything secret.")


class LimitReached(Refusal):
    """The body of a 429: which limit was reached, as a sentence and as one word."""

    code: Literal["concurrency", "quota", "rate"] = Field(
        description="`concurrency`: as many active jobs and calls as the plan allows, so one may "
        "start when another ends. `quota`: not enough credits. `rate`: too many requests or "
        "connections at once."
    )


class ValidationErrorReply(Reply):
    """The body of a 422: what is wrong with which field."""

    detail: list[FieldProblem] = Field(description="What is wrong with which field.")
