"""Validates replies leniently, and turns error replies into the toolkit's exceptions."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from webdata_nb import errors
from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.fields import SECRET_FIELDS
from webdata_nb.contract.problem_types import REFUSED
from webdata_nb.contract.replies import Weight
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.client import retry

R = TypeVar("R", bound=BaseModel)

_DETAIL_LENGTH: Final = 500
_FIRST_WORDS: Final = 60
_WITHOUT_TEXT: Final = re.compile(
    r"(?is)<!--.*?-->|<(head|script|style)\b(?:(?!<title).)*?</\1>|<[^>]*>|[\x00-\x1f\x7f]"
)
_WRONG_ADDRESS: Final = "set base_url (WEBDATA_BASE_URL) to the address of a webdata service"
_WEIGHTS: Final = TypeAdapter(list[Weight])
# Fields on which the rows of a result depend.
_NEEDED: Final = frozenset({"data", "creatives", "cursor", "result", "result_expired", "status"})


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP reply; header names are in lower case, `decoded` is the JSON of a successful one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    decoded: Any = None

    @property
    def ok(self) -> bool:
        """Whether the status is a success."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def content_type(self) -> str:
        """The media type of the body; "" if it is not stated."""
        return self.headers.get("content-type", "").partition(";")[0].strip()

    @property
    def is_json(self) -> bool:
        """Whether the reply says that its body is JSON."""
        return self.content_type.endswith("json")

    def decode_json(self) -> Any:
        """Return the value of the body; raises `MalformedJson`."""
        return decode_json(self.body, content_type=self.headers.get("content-type"))

    def summary(self) -> str:
        """Return the status, the media type and the first words, as in `200 text/html 'Home'`."""
        text = _WITHOUT_TEXT.sub(" ", self.body[: _DETAIL_LENGTH * 4].decode("utf-8", "replace"))
        words = " ".join(text.split())
        first = f" {words[:_FIRST_WORDS]!r}" if words else " without a body"
        return f"{self.status} {self.content_type or 'without a content type'}{first}"


# --------------------------------------------------------------------------------------- replies


def parse(
    model: type[R], body: Any, base_url: str = "", *, known: Mapping[str, Any] | None = None
) -> R:
    """Check a decoded body against its model.

    Parameters
    ----------
    model : type
        The model of the reply.
    body : Any
        The decoded body.
    base_url : str
        The service, for the message.
    known : Mapping, optional
        Values of fields that another service may leave out, because the caller knows them.

    Raises
    ------
    BadAnswer
        The body breaks the contract; the message and `field` name the first wrong field.
    """
    fields = _lenient(body)
    if known is not None and isinstance(fields, dict):
        fields = {**known, **fields}
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        if isinstance(fields, dict) and (repaired := _repaired(model, error, fields)) is not None:
            # Once only: a field that was repaired or left out cannot fail again.
            with contextlib.suppress(ValidationError):
                return model.model_validate(repaired)
        raise _contract_error(model.__name__, error, body, base_url) from None


def _repaired(
    model: type[BaseModel], error: ValidationError, fields: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the fields without those of a wrong type that nothing depends on; None if some do.

    A number becomes text where text is due.
    """
    repaired = dict(fields)
    for problem in error.errors(include_input=False, include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        value = repaired.get(name)
        if problem["type"] == "string_type" and isinstance(value, int | float):
            repaired[name] = str(value)
        elif problem["type"] == "string_type" and isinstance(value, dict | list):
            repaired[name] = orjson.dumps(value).decode()
        elif name in _NEEDED or name not in fields or model.model_fields[name].is_required():
            return None
        else:
            repaired.pop(name, None)
    return repaired


def parse_weights(body: Any) -> list[Weight]:
    """Check the weight catalog, an array; raises as `parse`."""
    try:
        return _WEIGHTS.validate_python(body)
    except ValidationError as error:
        raise _contract_error("weights", error, body) from None


def _lenient(body: Any) -> Any:
    """Drop null values, and read `queued` as the initial status, as the contract allows."""
    if not isinstance(body, dict):
        return body
    fields = {name: value for name, value in body.items() if value is not None}
    if "result" in fields:
        fields["result"] = _lenient(fields["result"])
    status = fields.get("status")
    if isinstance(status, str):
        fields["status"] = "started" if status.lower() == "queued" else status.lower()
    return fields


def _contract_error(
    model_name: str, error: ValidationError, body: Any, base_url: str = ""
) -> errors.BadAnswer:
    """Return an error that names the first wrong field, but no value: replies may hold secrets."""
    first = error.errors(include_input=False, include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    location = f"field {path!r}" if path else "the body"
    sender = f"the service at {base_url}" if base_url else "the service"
    foreign = ""
    if first["type"] == "missing" or not path:
        foreign = f"; it is {_outline(body)}: {_WRONG_ADDRESS}"
    return errors.BadAnswer(
        f"the answer of {sender} ({model_name}) breaks the contract: "
        f"{location} {plain_message(first)}{foreign}",
        field=path or None,
    )


def _outline(body: Any) -> str:
    """Return what a reply consists of, without its values."""
    if isinstance(body, dict):
        return format_value(body)
    return f"JSON of the type {type(body).__name__}"


# ---------------------------------------------------------------------------------------- errors


def error_of(
    reply: HttpReply,
    path: str,
    why: str = "",
    *,
    base_url: str = "",
    request_body: Mapping[str, Any] | None = None,
) -> errors.ServiceError | errors.BadAnswer:
    """Return the error for a reply with a status from 300.

    Parameters
    ----------
    reply : HttpReply
        The reply.
    path : str
        The operation's path; a 400 means a wrong state for some and a wrong request for others.
    why : str
        Why no further attempt was made.
    base_url : str
        The address of the service, for the message.
    request_body : Mapping, optional
        The request, whose wrong values the message states.
    """
    if reply.status < HTTPStatus.BAD_REQUEST:
        target = reply.headers.get("location", "").partition("?")[0] or "elsewhere"
        return errors.BadAnswer(
            f"{base_url}{path} points to {target}; redirects are not followed"
            ", since they would carry the key along: set base_url (WEBDATA_BASE_URL) to "
            "the final address"
        )
    detail, fields, types = _detail(reply)
    if fields and request_body is not None:
        detail = "; ".join(
            f"{location}: {text.rstrip('.')}{_value_text(location, text, request_body)}"
            for location, text in fields
        )[:_DETAIL_LENGTH]
    kind = _kind(reply, path, detail)
    attributes: dict[str, Any] = {
        "status": reply.status,
        "detail": detail,
        "retry_after": retry.retry_after_s(reply.headers, datetime.now(UTC)),
    }
    if issubclass(kind, errors.InvalidRequest):
        attributes["fields"], attributes["types"] = fields, types
    if issubclass(kind, errors.RateLimited):
        attributes["limit"], attributes["active"] = retry.concurrency_limits(reply.headers)
    if reply.status in _FOREIGN_STATUSES and not (reply.is_json or _is_contract_error(reply)):
        return kind(f"{base_url}{path} sent {reply.summary()}: {_WRONG_ADDRESS}", **attributes)
    return kind(_message(kind, reply, path, detail, why), **attributes)


_BY_STATUS: Final[dict[int, type[errors.ServiceError]]] = {
    HTTPStatus.BAD_REQUEST: errors.InvalidRequest,
    HTTPStatus.UNAUTHORIZED: errors.AuthError,
    HTTPStatus.PAYMENT_REQUIRED: errors.QuotaExhausted,
    HTTPStatus.FORBIDDEN: errors.AuthError,
    HTTPStatus.NOT_FOUND: errors.NotFound,
    HTTPStatus.METHOD_NOT_ALLOWED: errors.NotSupported,
    HTTPStatus.NOT_ACCEPTABLE: errors.NotSupported,
    HTTPStatus.GONE: errors.Expired,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: errors.InvalidRequest,
    HTTPStatus.UNPROCESSABLE_ENTITY: errors.InvalidRequest,
    HTTPStatus.TOO_MANY_REQUESTS: errors.RateLimited,
    HTTPStatus.NOT_IMPLEMENTED: errors.NotSupported,
}

# Other servers answer these to a path that they do not know.
_FOREIGN_STATUSES: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)

_CODES_BY_STATUS: Final[dict[int, frozenset[str]]] = {
    HTTPStatus.TOO_MANY_REQUESTS: retry.LIMIT_CODES,
    HTTPStatus.BAD_GATEWAY: frozenset({REFUSED}),
}
_ADVICE: Final[dict[type[errors.ServiceError], str]] = {
    errors.AuthError: "set api_key (WEBDATA_API_KEY) to a key that this service knows",
    errors.NotFound: "jobs_df() lists the jobs of this key",
    errors.WrongState: "read the job's status first",
    errors.Expired: "start a new job",
    errors.RateLimited: "run fewer jobs at once, or wait for them",
    errors.QuotaExhausted: "top up, or wait for the next billing period",
    errors.ServiceFault: "try again later",
}


def _kind(reply: HttpReply, path: str, detail: str) -> type[errors.ServiceError]:
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _BY_STATUS.get(reply.status, errors.ServiceFault)
    if reply.status == HTTPStatus.BAD_REQUEST and path.endswith(("/cancel", "/retry")):
        return errors.WrongState
    full = reply.status == HTTPStatus.TOO_MANY_REQUESTS
    if full and retry.is_quota_exhausted(reply.headers, detail, code_of(reply)):
        return errors.QuotaExhausted
    return _BY_STATUS.get(reply.status, errors.ServiceError)


def _is_contract_error(reply: HttpReply) -> bool:
    """Return whether the body is that of a service, whatever its content type says."""
    try:
        return isinstance(reply.decode_json(), dict | list)
    except MalformedJson:
        return not reply.body


_MEANINGS: Final[dict[type[errors.ServiceError], str]] = {
    errors.InvalidRequest: "the service refuses the request",
    errors.WrongState: "the state of the job does not allow this",
    errors.AuthError: "the service does not accept the key",
    errors.Expired: "the results have expired",
    errors.NotSupported: "the service does not offer this",
    errors.RateLimited: "the service is asked for too much at once",
    errors.QuotaExhausted: "the credits are used up",
    errors.ServiceFault: "the service failed",
}


def _message(
    kind: type[errors.ServiceError], reply: HttpReply, path: str, detail: str, why: str
) -> str:
    """Return what a status means, the service's own words, and what to do."""
    meaning = _MEANINGS.get(kind, "the service refuses the request")
    if kind is errors.NotFound:
        meaning = f"the service finds nothing at {path}"
    elif not detail and kind in {errors.ServiceError, errors.InvalidRequest, errors.ServiceFault}:
        meaning = f"{meaning} (status {reply.status})"
    advice = _ADVICE.get(kind, "")
    if code_of(reply) == REFUSED:
        meaning, advice = "the source of ads refuses the request", ""
    after = "; ".join(part for part in (detail.rstrip("."), advice, why) if part)
    return f"{meaning}: {after}" if detail else "; ".join(filter(None, (meaning, after)))


def code_of(reply: HttpReply) -> str | None:
    """Return the code of the limit in a 429 or of a refusal in a 502; None without a known one."""
    known = _CODES_BY_STATUS.get(reply.status)
    if known is None:
        return None
    try:
        body = reply.decode_json()
    except MalformedJson:
        return None
    code = body.get("code") if isinstance(body, dict) else None
    return code if isinstance(code, str) and code in known else None


def detail_of(reply: HttpReply) -> str:
    """Return the service's message of an error."""
    return _detail(reply).text


class _ErrorDetail(NamedTuple):
    """The text of an error body, and path, message and type of each invalid field."""

    text: str
    fields: tuple[tuple[str, str], ...] = ()
    types: tuple[str, ...] = ()


def _detail(reply: HttpReply) -> _ErrorDetail:
    """Read any error body: the contract's, that of a similar API, or a proxy's text page."""
    try:
        body = reply.decode_json()
    except MalformedJson:
        return _ErrorDetail(_words(reply.body))
    detail = body
    if isinstance(body, dict):
        detail = next((body[name] for name in ("detail", "error", "message") if body.get(name)), "")
    if isinstance(detail, list):
        entries = [entry for entry in detail if isinstance(entry, dict)]
        fields = tuple(map(_field, entries))
        text = "; ".join(f"{location}: {text}" for location, text in fields)
        types = tuple(str(entry.get("type", "")) for entry in entries)
        return _ErrorDetail(text[:_DETAIL_LENGTH], fields, types)
    text = detail if isinstance(detail, str) else orjson.dumps(detail).decode()
    return _ErrorDetail(text[:_DETAIL_LENGTH])


def _value_text(location: str, text: str, request_body: Mapping[str, Any]) -> str:
    """Return the end of a message: the wrong value of the request, and the closest valid one."""
    value: Any = request_body
    names = location.split(".")
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, str | int | float) or not SECRET_FIELDS.isdisjoint(names):
        return ""
    choices = filter(None, text.partition("must be one of ")[2].split(", "))
    return f"; it is {format_value(value)}{did_you_mean(quoted(closest(value, choices)))}"


def _field(entry: dict[str, Any]) -> tuple[str, str]:
    loc = entry.get("loc")
    parts = [str(part) for part in loc if part != "body"] if isinstance(loc, list) else []
    return ".".join(parts) or "body", str(entry.get("msg", "invalid"))


def _words(body: bytes) -> str:
    """Return an error body that is not JSON as one line; '' for HTML."""
    text = " ".join(body[: 2 * _DETAIL_LENGTH].decode("utf-8", "replace").split())
    return "" if text.startswith("<") else text[:_DETAIL_LENGTH]
