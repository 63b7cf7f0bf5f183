"""Requests and replies of OpenAI's chat completions API, and its retry policy. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal

import orjson

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.pacing.retry_policies import FAILED_MODEL_CALL, MODEL_CALL
from webdata_nb.page.errors import ExtractError
from webdata_nb.service.foreign_services import ErrorKind, ErrorReply

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

_AUTH: Final = ("auth", "the provider does not accept the key")
_QUOTA: Final = ("quota", "the quota at the provider is used up")
_RATE_LIMITED: Final = ("rate_limited", "the provider asks for fewer requests")
_TOO_LONG: Final = ("too_long", "the model takes less text: set its context lower")
_REDIRECTS: Final = "the provider points to another address, which is not followed"
_ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    401: _AUTH,
    402: _QUOTA,
    403: _AUTH,
    404: ("status", "the provider has no such model, or its address is wrong"),
    413: _TOO_LONG,
    429: _RATE_LIMITED,
}
_ERRORS_BY_KIND: Final[Mapping[ErrorKind, tuple[str, str]]] = {
    "auth": _AUTH,
    "quota": _QUOTA,
    "rate_limited": _RATE_LIMITED,
    "too_long": _TOO_LONG,
}
# Errors that have a reason of their own, and are repeated in every response format.
_NOT_OF_FORMAT: Final = frozenset({"auth", "quota", "rate_limited", "too_long"})


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


def may_reject_format(status: int, error: ErrorReply) -> bool:
    """Return whether an error may mean that the endpoint does not support the response format."""
    return (
        _error_status(status, error) in _UNSUPPORTED_FORMAT_STATUSES
        and error.kind not in _NOT_OF_FORMAT
    )


def retry_delay_s(
    status: int | str, error: ErrorReply, *, attempt: int, retry_after_s: float | None
) -> float | None:
    """Return the seconds to wait before the next attempt; None to give up.

    The error in the body of a reply counts more than its status.

    Parameters
    ----------
    status
        Status of the reply, or the kind of the failure.
    error
        The error in the body of the reply.
    attempt
        Number of the attempt that failed, from 1.
    retry_after_s
        The provider's `Retry-After`.
    """
    if error.kind in {"auth", "quota", "too_long"}:
        return None
    if isinstance(status, int):
        status = _error_status(status, error)
    limited = status == HTTPStatus.TOO_MANY_REQUESTS or error.kind == "rate_limited"
    transient = status in _TRANSIENT_STATUSES | _TRANSIENT_FAILURES or error.kind == "transient"
    if not limited and not transient:
        return None
    policy = MODEL_CALL if limited else FAILED_MODEL_CALL
    return policy.next_delay_s(attempt, retry_after_s=retry_after_s)


def error_of(status: int, error: ErrorReply) -> ExtractError | None:
    """Return the error that a reply means by its body, else by its status; None without one."""
    code = _error_status(status, error)
    if error.kind is not None and error.kind in _ERRORS_BY_KIND:
        kind, meaning = _ERRORS_BY_KIND[error.kind]
    elif code == HTTPStatus.OK:
        if not error.reason:
            return None
        kind, meaning = "status", "the provider failed"
    else:
        redirects = HTTPStatus.MULTIPLE_CHOICES <= code < HTTPStatus.BAD_REQUEST
        refuses = HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR
        other = f"the provider {'refuses the request' if refuses else 'failed'} (status {code})"
        kind, meaning = _ERRORS.get(code, ("status", _REDIRECTS if redirects else other))
    return ExtractError(kind, error.explain(meaning))


def _error_status(status: int, error: ErrorReply) -> int:
    """Return the status of a reply; gateways send that of an error in the body of a 200."""
    return (error.status or status) if status == HTTPStatus.OK else status


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


def _load_json(reply: bytes | str) -> Any:
    try:
        return decode_json(reply)
    except MalformedJson:
        return None


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _token_count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**9 else None
