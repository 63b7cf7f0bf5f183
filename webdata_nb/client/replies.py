"""Validates replies leniently, and turns error replies into the toolkit's exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from webdata_nb import errors
from webdata_nb.client import retry
from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.replies import Weight

R = TypeVar("R", bound=BaseModel)

_DETAIL_LENGTH: Final = 500
_WEIGHTS: Final = TypeAdapter(list[Weight])


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP reply; header names are in lower case, `decoded` is the JSON of a successful one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    decoded: Any = None

    @property
    def good(self) -> bool:
        """Whether the status says success."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


# --------------------------------------------------------------------------------------- replies


def parse(model: type[R], body: Any) -> R:
    """Check a decoded body against its model.

    Raises
    ------
    BadAnswer
        The body breaks the contract; the message and `field` name the first wrong field.
    """
    try:
        return model.model_validate(_lenient(body))
    except ValidationError as error:
        raise _contract_error(model.__name__, error) from None


def parse_weights(body: Any) -> list[Weight]:
    """Check the weight catalog, an array; raises as `parse`."""
    try:
        return _WEIGHTS.validate_python(body)
    except ValidationError as error:
        raise _contract_error("weights", error) from None


def _lenient(body: Any) -> Any:
    """Drop null values, and read `queued` as the initial status, as the contract allows."""
    if not isinstance(body, dict):
        return body
    fields = {name: value for name, value in body.items() if value is not None}
    if "result" in fields:
        fields["result"] = _lenient(fields["result"])
    if fields.get("status") == "queued":
        fields["status"] = "started"
    return fields


def _contract_error(what: str, error: ValidationError) -> errors.BadAnswer:
    """Return an error that names the first wrong field, but no value: replies may hold secrets."""
    first = error.errors(include_input=False, include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    where = f"field {path!r}" if path else "the body"
    return errors.BadAnswer(
        f"the service's answer ({what}) breaks the contract: {where} {plain_message(first)}",
        field=path or None,
    )


# ---------------------------------------------------------------------------------------- errors


def error_of(reply: HttpReply, path: str, why: str = "") -> errors.ServiceError | errors.BadAnswer:
    """Return the error that an answer with a status from 300 stands for.

    Parameters
    ----------
    reply : HttpReply
        What came back.
    path : str
        The operation's path; a 400 means a wrong state for some and a wrong request for others.
    why : str
        Why no further attempt was made.
    """
    if reply.status < HTTPStatus.BAD_REQUEST:
        return errors.BadAnswer(
            f"the service answered {reply.status} and points elsewhere; redirects are not "
            "followed, since they would carry the key along: set base_url to the final address"
        )
    detail, fields = _detail(reply)
    kind = _kind(reply, path, detail)
    stated: dict[str, Any] = {
        "status": reply.status,
        "detail": detail,
        "retry_after": retry.retry_after_s(reply.headers, datetime.now(UTC)),
    }
    if issubclass(kind, errors.InvalidRequest):
        stated["fields"] = fields
    if issubclass(kind, errors.RateLimited):
        stated["limit"], stated["active"] = retry.concurrency_limits(reply.headers)
    return kind(_message(kind, reply.status, detail, why), **stated)


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

_ADVICE: Final[dict[type[errors.ServiceError], str]] = {
    errors.AuthError: "set api_key (WEBDATA_API_KEY) to a key that this service knows",
    errors.NotFound: "check the id, and that the key belongs to the account that owns it",
    errors.WrongState: "read the job's status first",
    errors.Expired: "start a new job",
    errors.InvalidRequest: "correct the request",
    errors.NotSupported: "the service does not offer this",
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


def _message(kind: type[errors.ServiceError], status: int, detail: str, why: str) -> str:
    advice = _ADVICE.get(kind, "read the service's documentation")
    said = f": {detail}" if detail else ""
    return f"the service answered {status}{said} ({advice}{'; ' + why if why else ''})"


def code_of(reply: HttpReply) -> str | None:
    """Return the service's word for the limit of a 429; None where it has none that is known."""
    if reply.status != HTTPStatus.TOO_MANY_REQUESTS:
        return None
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    code = body.get("code") if isinstance(body, dict) else None
    return code if isinstance(code, str) and code in retry.LIMIT_CODES else None


def detail_of(reply: HttpReply) -> str:
    """Return the service's own words about an error."""
    return _detail(reply)[0]


def _detail(reply: HttpReply) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Read any error body: the contract's, a relative's, or a proxy's page of text."""
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return _words(reply.body), ()
    said = body
    if isinstance(body, dict):
        said = next((body[name] for name in ("detail", "error", "message") if body.get(name)), "")
    if isinstance(said, list):
        fields = tuple(_field(each) for each in said if isinstance(each, dict))
        return "; ".join(f"{where}: {text}" for where, text in fields)[:_DETAIL_LENGTH], fields
    return (said if isinstance(said, str) else orjson.dumps(said).decode())[:_DETAIL_LENGTH], ()


def _field(entry: dict[str, Any]) -> tuple[str, str]:
    loc = entry.get("loc")
    parts = [str(part) for part in loc if part != "body"] if isinstance(loc, list) else []
    return ".".join(parts) or "body", str(entry.get("msg", "invalid"))


def _words(body: bytes) -> str:
    """Return an error body that is no JSON as one line; a page of HTML says nothing."""
    text = " ".join(body[: 2 * _DETAIL_LENGTH].decode("utf-8", "replace").split())
    return "" if text.startswith("<") else text[:_DETAIL_LENGTH]
