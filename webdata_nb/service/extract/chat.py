"""Requests and replies of OpenAI's chat completions API, and its retry policy. Pure.

Errors never quote the reply: some providers repeat a part of the key in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal

import orjson

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.pacing.backoff import BackoffPolicy
from webdata_nb.service.errors import ExtractError

ResponseFormat = Literal["json_schema", "json_object", "prompt"]
ChatMessage = Mapping[str, str]
RESPONSE_FORMATS: Final[tuple[ResponseFormat, ...]] = ("json_schema", "json_object", "prompt")
"""From the strictest to the one that any endpoint supports: only the prompt requests JSON."""

_OVERLOADED: Final = 529
_UNSUPPORTED_FORMAT_STATUSES: Final = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_IMPLEMENTED}
)
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 425, 500, 502, 503, 504, _OVERLOADED})
_TRANSIENT_FAILURES: Final = frozenset({"connect", "reset", "dns"})
_RATE_LIMIT_POLICY: Final = BackoffPolicy(1.0, 16.0, max_attempts=6)
_TRANSIENT_POLICY: Final = BackoffPolicy(1.0, 16.0, max_attempts=3)
_CONTEXT_EXCEEDED_CODES: Final = frozenset({"context_length_exceeded", "string_above_max_length"})
_QUOTA_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

_ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    401: ("auth", "the provider does not accept the key"),
    402: ("quota", "the quota at the provider is used up"),
    403: ("auth", "the provider does not accept the key"),
    404: ("status", "HTTP 404: no such model, or a wrong address"),
    413: ("too_long", "the model takes less text: set its context lower"),
    429: ("rate_limited", "HTTP 429: the provider is asked too often"),
}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat completion.

    Attributes
    ----------
    text
        The model's answer.
    truncated
        Whether the answer ended at the model's token limit.
    refused
        Whether the model, or a filter of the provider, refused to answer.
    prompt_tokens, completion_tokens
        The token usage; None if the endpoint does not report it.
    """

    text: str
    truncated: bool = False
    refused: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def request_body(
    model: str,
    messages: Sequence[ChatMessage],
    response_format: ResponseFormat,
    schema: Mapping[str, Any] | None,
) -> bytes:
    """Return the body of a request.

    It sets neither a temperature nor a token limit, as some models refuse the one or the other.
    """
    request: dict[str, Any] = {"model": model, "messages": list(messages), "stream": False}
    if response_format == "json_schema":
        named_schema = {"name": "extraction", "strict": True, "schema": schema}
        request["response_format"] = {"type": response_format, "json_schema": named_schema}
    elif response_format == "json_object":
        request["response_format"] = {"type": response_format}
    return orjson.dumps(request)


def simpler_format(response_format: ResponseFormat) -> ResponseFormat | None:
    """Return the next less strict response format; None after the last."""
    weaker = RESPONSE_FORMATS[RESPONSE_FORMATS.index(response_format) + 1 :]
    return weaker[0] if weaker else None


def may_reject_format(status: int, reply: bytes) -> bool:
    """Return whether an error may mean that the endpoint does not support the response format."""
    return (
        status in _UNSUPPORTED_FORMAT_STATUSES and not _error_codes(reply) & _CONTEXT_EXCEEDED_CODES
    )


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
    limited = status == HTTPStatus.TOO_MANY_REQUESTS and not _error_codes(reply) & _QUOTA_CODES
    if not limited and status not in _TRANSIENT_STATUSES and status not in _TRANSIENT_FAILURES:
        return None
    policy = _RATE_LIMIT_POLICY if limited else _TRANSIENT_POLICY
    return policy.next_delay_s(attempt, retry_after_s=retry_after_s)


def error_of(status: int, reply: bytes) -> ExtractError | None:
    """Return the error that a reply means; None for status 200."""
    if status == HTTPStatus.OK:
        return None
    codes = _error_codes(reply)
    if codes & _CONTEXT_EXCEEDED_CODES:
        return ExtractError(*_ERRORS[HTTPStatus.REQUEST_ENTITY_TOO_LARGE])
    if codes & _QUOTA_CODES:
        return ExtractError(*_ERRORS[HTTPStatus.PAYMENT_REQUIRED])
    return ExtractError(*_ERRORS.get(status, ("status", f"HTTP {status} from the provider")))


def parse_reply(reply: bytes) -> ChatReply:
    """Read a successful reply. Raises `ExtractError` if it is no chat completion."""
    completion = _load_json(reply)
    choices = _member(completion, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = _member(choice, "message")
    if not isinstance(message, dict):
        raise ExtractError("malformed", "the provider's answer is no chat completion")
    finish_reason, usage = _member(choice, "finish_reason"), _member(completion, "usage")
    return ChatReply(
        _message_text(message.get("content")) or _text_elsewhere(message),
        truncated=finish_reason == "length",
        refused=finish_reason == "content_filter" or bool(message.get("refusal")),
        prompt_tokens=_token_count(_member(usage, "prompt_tokens")),
        completion_tokens=_token_count(_member(usage, "completion_tokens")),
    )


def _message_text(content: Any) -> str:
    """Return the text of a message, whose content is a string or a list of parts."""
    if isinstance(content, list):
        parts = (_member(part, "text") for part in content if _member(part, "type") == "text")
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _text_elsewhere(message: Mapping[str, Any]) -> str:
    """Return the JSON of a message without content: some endpoints put it into other members.

    A reasoning counts only if it is JSON as a whole, since otherwise it has drafts of the answer.
    """
    calls = message.get("tool_calls")
    call = calls[0] if isinstance(calls, list) and len(calls) == 1 else None
    texts = (
        _member(_member(call, "function"), "arguments"),
        message.get("reasoning_content"),
        message.get("reasoning"),
    )
    return next(
        (text for text in texts if isinstance(text, str) and _load_json(text) is not None), ""
    )


def _error_codes(reply: bytes) -> frozenset[str]:
    """Return the `code` and `type` of an error reply."""
    error = _member(_load_json(reply), "error")
    codes = (_member(error, name) for name in ("code", "type"))
    return frozenset(code for code in codes if isinstance(code, str))


def _load_json(reply: bytes | str) -> Any:
    try:
        return decode_json(reply)
    except MalformedJson:
        return None


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _token_count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**9 else None
