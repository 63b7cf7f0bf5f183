"""Chat completions in OpenAI's shape, as values: requests out, replies in, retries decided. Pure.

Nothing of an error reply is ever repeated: some providers echo a part of the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal

import orjson

from webdata_nb.pacing.backoff import BackoffPolicy
from webdata_nb.service.errors import ExtractError

ResponseFormat = Literal["json_schema", "json_object", "prompt"]
ChatMessage = Mapping[str, str]
RESPONSE_FORMATS: Final[tuple[ResponseFormat, ...]] = ("json_schema", "json_object", "prompt")

_OVERLOADED: Final = 529
_UNKNOWN_FORMAT: Final = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_IMPLEMENTED}
)
_PASSING: Final = frozenset({408, 409, 425, 500, 502, 503, 504, _OVERLOADED})
_PASSING_FAILURES: Final = frozenset({"connect", "reset", "dns"})
_RATE_LIMITED: Final = BackoffPolicy(1.0, 16.0, max_attempts=6)
_TRANSIENT: Final = BackoffPolicy(1.0, 16.0, max_attempts=3)
_TOO_LONG: Final = frozenset({"context_length_exceeded", "string_above_max_length"})
_NO_QUOTA: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

_MEANT: Final[Mapping[int, tuple[str, str]]] = {
    401: ("auth", "the provider does not accept the key"),
    402: ("quota", "the quota at the provider is used up"),
    403: ("auth", "the provider does not accept the key"),
    404: ("status", "HTTP 404: no such model, or a wrong address"),
    413: ("too_long", "the model takes less text: set its context lower"),
    429: ("rate_limited", "HTTP 429: the provider is asked too often"),
}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model said: `cut` at its limit, or `declined`; tokens None where it did not count."""

    text: str
    cut: bool = False
    declined: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def body(
    model: str,
    messages: Sequence[ChatMessage],
    response_format: ResponseFormat,
    schema: Mapping[str, Any] | None,
) -> bytes:
    """Return the body of a request.

    Neither a temperature nor a limit of tokens is sent: models differ in which they refuse.
    """
    asked: dict[str, Any] = {"model": model, "messages": list(messages), "stream": False}
    if response_format == "json_schema":
        named = {"name": "extraction", "strict": True, "schema": schema}
        asked["response_format"] = {"type": response_format, "json_schema": named}
    elif response_format == "json_object":
        asked["response_format"] = {"type": response_format}
    return orjson.dumps(asked)


def below(response_format: ResponseFormat) -> ResponseFormat | None:
    """Return the next simpler way to ask for JSON; None where there is none."""
    rest = RESPONSE_FORMATS[RESPONSE_FORMATS.index(response_format) + 1 :]
    return rest[0] if rest else None


def steps_down(status: int, reply: bytes) -> bool:
    """Tell whether a reply may mean that the response format is not understood."""
    return status in _UNKNOWN_FORMAT and not _codes(reply) & _TOO_LONG


def retry_delay_s(
    status: int | str, reply: bytes, *, attempt: int, retry_after_s: float | None
) -> float | None:
    """Return the seconds to wait before the next attempt; None to give up.

    Parameters
    ----------
    status
        Status of the reply, or the kind of the failure.
    reply
        Body of the reply.
    attempt
        Number of the attempt that failed, from 1.
    retry_after_s
        The provider's `Retry-After`.
    """
    limited = status == HTTPStatus.TOO_MANY_REQUESTS and not _codes(reply) & _NO_QUOTA
    if not limited and status not in _PASSING and status not in _PASSING_FAILURES:
        return None
    policy = _RATE_LIMITED if limited else _TRANSIENT
    return policy.next_delay_s(attempt, retry_after_s=retry_after_s)


def problem(status: int, reply: bytes) -> ExtractError | None:
    """Return what a status means; None for a good one."""
    if status == HTTPStatus.OK:
        return None
    codes = _codes(reply)
    if codes & _TOO_LONG:
        return ExtractError(*_MEANT[HTTPStatus.REQUEST_ENTITY_TOO_LARGE])
    if codes & _NO_QUOTA:
        return ExtractError(*_MEANT[HTTPStatus.PAYMENT_REQUIRED])
    return ExtractError(*_MEANT.get(status, ("status", f"HTTP {status} from the provider")))


def read(reply: bytes) -> ChatReply:
    """Read a good reply. Raises `ExtractError` where it is no chat completion."""
    told = _document(reply)
    choices = _member(told, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = _member(choice, "message")
    if not isinstance(message, dict):
        raise ExtractError("malformed", "the provider's answer is no chat completion")
    ended, usage = _member(choice, "finish_reason"), _member(told, "usage")
    return ChatReply(
        _text(message.get("content")),
        cut=ended == "length",
        declined=ended == "content_filter" or bool(message.get("refusal")),
        prompt_tokens=_count(_member(usage, "prompt_tokens")),
        completion_tokens=_count(_member(usage, "completion_tokens")),
    )


def _text(content: Any) -> str:
    """Return the text of a message: a string, or a list of parts."""
    if isinstance(content, list):
        parts = (_member(part, "text") for part in content if _member(part, "type") == "text")
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _codes(reply: bytes) -> frozenset[str]:
    """Return the words by which an error reply names its reason."""
    error = _member(_document(reply), "error")
    named = (_member(error, name) for name in ("code", "type"))
    return frozenset(each for each in named if isinstance(each, str))


def _document(reply: bytes) -> Any:
    try:
        return orjson.loads(reply)
    except orjson.JSONDecodeError:
        return None


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**9 else None
