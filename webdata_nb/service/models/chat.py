"""Calls language models: providers, the chat completions API of OpenAI, queues, retries."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import orjson

from webdata_nb.contract.fields import http_url
from webdata_nb.contract.local import ModelAccess
from webdata_nb.contract.requests import Extract
from webdata_nb.foreign_json import MalformedJson, decode_json, member
from webdata_nb.pacing.retry_policies import FAILED_MODEL_CALL, MODEL_CALL
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import BadInput, ExtractError, FetchError
from webdata_nb.page.extract.schema import Loc
from webdata_nb.service.foreign_services import ErrorKind, ErrorReply, has_error, read_error
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore, current_account
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.request import FetchLimits, retry_after_s

STRUCTURED: Final = "structured"
# A model on a small machine takes a minute for a long answer.
TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class ModelHost:
    """A provider with an API compatible with OpenAI's chat completions.

    Attributes
    ----------
    url
        The base URL; empty if the settings must name it.
    needs_key
        Whether the provider requires an API key.
    first_format
        The response format of the first request.
    context
        The model's context in tokens, unless the settings state it.
    """

    url: str = ""
    needs_key: bool = False
    first_format: ResponseFormat = "json_schema"
    context: int = 8192


HOSTS: Final[Mapping[str, ModelHost]] = {
    "openai": ModelHost("https://api.openai.com/v1", needs_key=True, context=32_000),
    # The compatible endpoint ignores the response format, so it is not sent.
    "anthropic": ModelHost(
        "https://api.anthropic.com/v1", needs_key=True, first_format="prompt", context=32_000
    ),
    "gemini": ModelHost(
        "https://generativelanguage.googleapis.com/v1beta/openai", needs_key=True, context=32_000
    ),
    "mistral": ModelHost("https://api.mistral.ai/v1", needs_key=True, context=32_000),
    "groq": ModelHost("https://api.groq.com/openai/v1", needs_key=True),
    "openrouter": ModelHost("https://openrouter.ai/api/v1", needs_key=True),
    # Ollama's default; it silently drops the rest of a longer prompt.
    "ollama": ModelHost(context=4096),
    "vllm": ModelHost(),
    "custom": ModelHost(),
}


@dataclass(frozen=True, slots=True)
class Model:
    """A model of one provider, with its address and limits. The repr omits address and key."""

    provider: str
    name: str
    url: str = field(repr=False)
    key: str = field(repr=False)
    context: int
    timeout_s: float
    first_format: ResponseFormat

    @property
    def identity(self) -> str:
        """An identifier of the provider, address and key that reveals neither."""
        access = f"{self.provider}\0{self.url}\0{self.key}"
        return f"{self.provider}#{hashlib.sha256(access.encode()).hexdigest()[:16]}"


def select_model(access: Mapping[str, ModelAccess], request: Extract, *, loc: Loc) -> Model | None:
    """Return the model for a request; None for extraction without a model.

    If the request names no provider, the first usable one in the order of `HOSTS` whose settings
    name a model is selected.

    Raises
    ------
    BadInput
        The provider is not set up, the settings do not allow the model, or the request is
        ambiguous.
    """
    if request.provider == STRUCTURED:
        if request.model is not None:
            raise BadInput("the provider structured has no models", loc=(*loc, "model"))
        return None
    if request.provider is not None:
        return _model(access, request.provider, request.model, loc)
    usable = [name for name in _in_order(access) if not missing_setting(name, access[name])]
    if request.model is not None:
        if not usable:
            raise BadInput(
                "no language model is set up here: without one, only declared data is read"
                f' (provider "{STRUCTURED}", no model)',
                loc=(*loc, "model"),
            )
        # The only usable provider, or the only one whose settings name the model.
        with_model = [
            name for name in usable if request.model in (access[name].model, *access[name].models)
        ]
        candidates = usable if len(usable) == 1 else with_model
        if len(candidates) != 1:
            raise BadInput(f"say which provider: {', '.join(usable)}", loc=(*loc, "provider"))
        return _model(access, candidates[0], request.model, loc)
    default = next((name for name in usable if access[name].usual), None)
    return None if default is None else _model(access, default, None, loc)


def setup_hint(access: Mapping[str, ModelAccess]) -> str:
    """Return which variables to set for a default model; the first provider with access wins.

    Examples
    --------
    >>> setup_hint({"openai": ModelAccess(key="k")})
    'set WEBDATA_LLM_OPENAI_MODEL, or give a schema'
    """
    provider = next(iter(_in_order(access)), None)
    if provider is None:
        return (
            "set WEBDATA_LLM_OPENAI_KEY and WEBDATA_LLM_OPENAI_MODEL (or ANTHROPIC, GEMINI, "
            "MISTRAL, ...), or WEBDATA_LLM_OLLAMA_URL and _MODEL for a local one, or give a schema"
        )
    variable = f"WEBDATA_LLM_{provider.upper()}"
    problem = missing_setting(provider, access[provider])
    missing = problem.rpartition(": ")[2] if problem else f"set {variable}_MODEL"
    return f"{missing}, or give a schema"


def missing_setting(provider: str, access: ModelAccess) -> str:
    """Return which setting of a provider is missing or invalid; empty if it is usable."""
    host, variable = HOSTS.get(provider, ModelHost()), f"WEBDATA_LLM_{provider.upper()}"
    if host.needs_key and not access.key:
        return f"no key: set {variable}_KEY"
    if not (access.url or host.url):
        return f"no address: set {variable}_URL"
    if access.url is None:
        return ""
    try:
        parts = urlsplit(http_url(access.url))
    except ValueError:
        return f"{variable}_URL must be an http:// or https:// URL with a host"
    if parts.username is not None or parts.password is not None:
        return f"{variable}_URL must have no user name or password"
    return ""


def provider_status(access: Mapping[str, ModelAccess]) -> tuple[bool, str]:
    """Return whether a default model is usable, and the model or problem of each provider.

    Examples
    --------
    >>> provider_status({"ollama": ModelAccess(url="http://localhost:11434/v1", model="m")})
    (True, 'ollama: m')
    """
    status = {
        name: missing_setting(name, access[name])
        or access[name].usual
        or "no default model: name one"
        for name in _in_order(access)
    }
    usable = any(
        provider.usual and not missing_setting(name, provider) for name, provider in access.items()
    )
    return usable, "; ".join(f"{name}: {text}" for name, text in status.items())


def _in_order(access: Mapping[str, ModelAccess]) -> list[str]:
    return [*(name for name in HOSTS if name in access), *sorted(set(access) - set(HOSTS))]


def _model(access: Mapping[str, ModelAccess], provider: str, model: str | None, loc: Loc) -> Model:
    if provider not in HOSTS and provider not in access:
        names = ", ".join((STRUCTURED, *HOSTS, *sorted(set(access) - set(HOSTS))))
        raise BadInput(f"must be one of {names}", loc=(*loc, "provider"))
    settings, host = access.get(provider, ModelAccess()), HOSTS.get(provider, ModelHost())
    if problem := missing_setting(provider, settings):
        raise BadInput(f"{provider} is not set up: {problem}", loc=(*loc, "provider"))
    if model is not None and settings.allowed and model not in settings.allowed:
        raise BadInput(f"must be one of {', '.join(settings.allowed)}", loc=(*loc, "model"))
    name = model or settings.usual
    if name is None:
        variable = f"WEBDATA_LLM_{provider.upper()}_MODEL"
        raise BadInput(f"say which model of {provider}, or set {variable}", loc=(*loc, "model"))
    return Model(
        provider=provider,
        name=name,
        url=(settings.url or host.url).rstrip("/"),
        key=settings.key or "",
        context=settings.context or host.context,
        timeout_s=settings.timeout or TIMEOUT_S,
        first_format=host.first_format,
    )


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
    choices = member(completion, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = member(choice, "message")
    if not isinstance(message, dict):
        raise ExtractError("malformed", "the provider's answer is no chat completion")
    content = message.get("content")
    if isinstance(content, list):
        parts = (member(part, "text") for part in content if member(part, "type") == "text")
        content = "".join(part for part in parts if isinstance(part, str))
    finish_reason, usage = member(choice, "finish_reason"), member(completion, "usage")
    return ChatReply(
        content if isinstance(content, str) and content else _text_elsewhere(message),
        truncated=finish_reason == "length",
        refused=finish_reason == "content_filter" or bool(message.get("refusal")),
        prompt_tokens=_token_count(member(usage, "prompt_tokens")),
        completion_tokens=_token_count(member(usage, "completion_tokens")),
    )


def _text_elsewhere(message: Mapping[str, Any]) -> str:
    """Return the JSON of a message without content: some endpoints put it into other members.

    A reasoning counts only if it is JSON as a whole, since otherwise it has drafts of the answer.
    """
    calls = message.get("tool_calls")
    call = calls[0] if isinstance(calls, list) and len(calls) == 1 else None
    texts = (
        member(call, "function", "arguments"),
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


def _token_count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**9 else None


FETCH_LIMITS: Final = FetchLimits(
    wire_bytes=2 * 1024 * 1024, decoded_bytes=4 * 1024 * 1024, redirects=0
)
_MAX_STORED: Final = 1000


def _stored() -> BoundedDict[Any, Any]:
    """Return a store whose keys callers choose."""
    return BoundedDict(_MAX_STORED)


_UNREACHABLE: Final = ("unreachable", "the provider cannot be reached")
_FAILURES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "timeout": ("timeout", "no answer in time"),
        "too_large": ("too_large", "the answer is too large"),
        "decode": ("malformed", "the answer's compression is broken"),
        "refused": ("unreachable", "the network policy does not allow the provider's address"),
    }
)
_LASTING_ERRORS: Final = frozenset({"auth", "quota"})


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of the requests to a model.

    Attributes
    ----------
    page_timeout_s
        Seconds for all requests about a page, including their time in the queue.
    max_pause_s
        Longest pause that a provider may ask for; a longer one fails the page at once.
    refusal_pause_s
        Seconds without requests after a provider rejected the key or the quota was used up.
    max_concurrent
        Concurrent requests to one provider.
    max_chunks
        Chunks of a long page that are read.
    """

    page_timeout_s: float = 600.0
    max_pause_s: float = 90.0
    refusal_pause_s: float = 30.0
    max_concurrent: int = 4
    max_chunks: int = 12


@dataclass(slots=True)
class ModelQueue:
    """The queue for one provider with one key, and what its replies revealed.

    Accounts share it. What one account's schema, text or model may have caused is stored for that
    account or model alone: the response format (`response_formats`), a pause after a failure
    (`account_pauses`), a model that the key does not permit (`refusals`). A pause that the
    provider asks for applies to all accounts.
    """

    slots: FairSemaphore
    response_formats: BoundedDict[tuple[str, str], ResponseFormat] = field(default_factory=_stored)
    paused_until: float = 0.0
    account_pauses: BoundedDict[str, float] = field(default_factory=_stored)
    refusals: BoundedDict[str, tuple[float, str, str]] = field(default_factory=_stored)

    def opens_at(self, account_id: str) -> float:
        """Return when an account may send requests again, on the monotonic clock."""
        return max(self.paused_until, self.account_pauses.get(account_id, 0.0))

    def pause(self, account_id: str, until: float, *, for_all: bool) -> None:
        """Stop requests until a time, for all accounts or for one."""
        if for_all:
            self.paused_until = max(self.paused_until, until)
        else:
            until = max(until, self.account_pauses.get(account_id, 0.0))
            self.account_pauses[account_id] = until


@dataclass(frozen=True, slots=True)
class ModelQueues:
    """The queues of a process, by `Model.identity`."""

    limits: ModelLimits = field(default_factory=ModelLimits)
    _queues: BoundedDict[str, ModelQueue] = field(default_factory=_stored)

    def queue(self, model: Model) -> ModelQueue:
        """Return the queue of a model's provider."""
        if model.identity not in self._queues:
            self._queues[model.identity] = ModelQueue(FairSemaphore(self.limits.max_concurrent))
        return self._queues[model.identity]


class ModelClient:
    """A client for one model of one provider."""

    def __init__(self, model: Model, fetcher: Fetcher, queues: ModelQueues) -> None:
        self._model, self._fetcher, self._limits = model, fetcher, queues.limits
        self._queue = queues.queue(model)

    async def ask(
        self, messages: Sequence[ChatMessage], schema: Mapping[str, Any] | None
    ) -> tuple[ChatReply, ResponseFormat]:
        """Send a conversation with the strictest response format that the endpoint supports.

        Parameters
        ----------
        messages
            The conversation so far.
        schema
            The JSON schema of the answer; None if no schema can describe it.

        Returns
        -------
        tuple of ChatReply and ResponseFormat
            The answer, and the response format in use.

        Raises
        ------
        ExtractError
            There is no answer.
        """
        name = self._model.name
        key = (current_account(), name)
        response_format = self._queue.response_formats.get(key, self._model.first_format)
        if schema is None:
            response_format = RESPONSE_FORMATS[
                max(RESPONSE_FORMATS.index(response_format), RESPONSE_FORMATS.index("json_object"))
            ]
        format_changed = False
        while True:
            reply = await self._send(request_body(name, messages, response_format, schema))
            error = self._read_error(reply)
            simpler = simpler_format(response_format)
            if simpler is None or not may_reject_format(reply.status, error):
                break
            response_format, format_changed = simpler, True
        if (failure := error_of(reply.status, error)) is not None:
            if failure.kind in _LASTING_ERRORS:
                until = time.monotonic() + self._limits.refusal_pause_s
                self._queue.refusals[self._model.name] = until, failure.kind, str(failure)
            raise failure
        answer = parse_reply(reply.body)
        if (
            format_changed
        ):  # store a format that works; the failure of another may have had its own reason
            self._queue.response_formats[key] = response_format
        return answer, response_format

    async def _send(self, body: bytes) -> FetchedResponse:
        headers = {"Content-Type": "application/json"}
        if self._model.key:
            headers["Authorization"] = f"Bearer {self._model.key}"
        request = FetchRequest(
            f"{self._model.url}/chat/completions",
            headers=headers,
            timeout_s=self._model.timeout_s,
            limits=FETCH_LIMITS,
            accept="application/json",
            method="POST",
            body=body,
            follow_redirects=False,  # the key is only sent to the address in the settings
        )
        for attempt in count(1):
            await self._wait_for_pause()
            reply: FetchedResponse | None = None
            failure = ""
            async with self._queue.slots:
                try:
                    reply = await self._fetcher.fetch(request)
                except FetchError as unanswered:
                    failure = unanswered.kind  # its message may contain the address
            after_s = None if reply is None else retry_after_s(reply)
            status = reply.status if reply is not None else failure
            error = ErrorReply() if reply is None else self._read_error(reply)
            wait_s = retry_delay_s(status, error, attempt=attempt, retry_after_s=after_s)
            if wait_s is None:
                break
            limited = after_s is not None or status == HTTPStatus.TOO_MANY_REQUESTS
            until = time.monotonic() + wait_s
            self._queue.pause(current_account(), until, for_all=limited)
        if reply is None:
            raise ExtractError(*_FAILURES.get(failure, _UNREACHABLE))
        return reply

    def _read_error(self, reply: FetchedResponse) -> ErrorReply:
        """Return the error that a reply reports; a model's answer is none."""
        if reply.status == HTTPStatus.OK and not has_error(reply.body):
            return ErrorReply()
        return read_error(reply.body, status=reply.status, secrets=(self._model.key,))

    async def _wait_for_pause(self) -> None:
        """Wait for the end of a pause; raises `ExtractError` at once if it is too long."""
        now = time.monotonic()
        until, *reason = self._queue.refusals.get(self._model.name, (0.0, "", ""))
        if now < until:
            raise ExtractError(*reason)
        opens_at = self._queue.opens_at(current_account())
        if opens_at - now > self._limits.max_pause_s:
            raise ExtractError(
                "rate_limited", "the provider asks for a longer pause than a page may wait"
            )
        await asyncio.sleep(max(0.0, opens_at - now))
