"""Maps exceptions to HTTP statuses and error bodies."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.problem_types import REFUSED
from webdata_nb.page.errors import ApplicationError, BadInput
from webdata_nb.service.errors import (
    AccountLimitReached,
    IdempotencyConflict,
    InvalidJobState,
    MissingSetting,
    NoSuchDelivery,
    NoSuchJob,
    NothingToExport,
    ResultsExpired,
    SourceAccessDenied,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceTimeout,
    StoreUnavailable,
    UnreadableSecrets,
)
from webdata_nb.service.http.json_bodies import InvalidJson, parse_strict_json
from webdata_nb.service.http.unavailable import SERVICE_UNAVAILABLE, store_unavailable

log = logging.getLogger(__name__)

# nginx's status for a client that disconnected; only the log and metrics show it.
CLIENT_DISCONNECTED: Final = 499

# Entries of a 422; one further entry counts those left out.
MAX_FIELD_PROBLEMS: Final = 100

STATUS: Final[dict[type[ApplicationError], int]] = {
    BadInput: 422,
    NoSuchJob: 404,
    NoSuchDelivery: 404,
    NothingToExport: 404,
    ResultsExpired: 410,
    InvalidJobState: 400,
    IdempotencyConflict: 409,
    AccountLimitReached: 429,
    UnreadableSecrets: 409,
    StoreUnavailable: SERVICE_UNAVAILABLE,
    MissingSetting: 501,
    SourceBusy: SERVICE_UNAVAILABLE,
    SourceTimeout: 504,
    SourceError: 502,  # the first match counts, so the base class comes last
}


def field_problem(loc: tuple[str | int, ...], message: str, kind: str) -> dict[str, Any]:
    """Return one entry of a 422; the message must not contain the value."""
    return {"loc": list(loc), "msg": message, "type": kind}


def _field_problems(errors: Sequence[Any]) -> list[dict[str, Any]]:
    """Convert pydantic's errors to entries of a 422; values are never echoed."""
    entries = [
        field_problem(
            tuple(part for part in error["loc"] if not _is_union_branch(part)),
            plain_message(error),
            error["type"],
        )
        for error in errors[:MAX_FIELD_PROBLEMS]
    ]
    if (omitted_count := len(errors) - MAX_FIELD_PROBLEMS) > 0:
        entries.append(
            field_problem(("body",), f"has {omitted_count} more problems", "too_many_problems")
        )
    return entries


def _is_union_branch(part: str | int) -> bool:
    """Whether a part of a location is pydantic's name for a union branch, not a field name."""
    return isinstance(part, str) and ("[" in part or part in {"str", "int", "bool"})


async def on_service_error(request: Request, error: Exception) -> JSONResponse:
    """Convert an `ApplicationError`; its class name is stored for the request log."""
    request.scope.setdefault("state", {})["refusal"] = type(error).__name__
    if isinstance(error, StoreUnavailable):
        return store_unavailable(error)
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    if isinstance(error, BadInput):
        return JSONResponse(
            {"detail": [field_problem(error.loc, str(error), error.problem_type)]}, status
        )
    code = {"code": error.code} if isinstance(error, AccountLimitReached) else {}
    if isinstance(error, SourceAccessDenied | SourceRefused):
        code = {"code": REFUSED}
    return JSONResponse({"detail": str(error), **code}, status, _headers(error))


def _headers(error: Exception) -> dict[str, str] | None:
    if isinstance(error, SourceBusy):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    return _limit_headers(error) if isinstance(error, AccountLimitReached) else None


def _limit_headers(error: AccountLimitReached) -> dict[str, str]:
    """Return the headers of a 429; an account without a limit gets its active count plus one."""
    limit = error.active + 1 if error.limit is None else error.limit
    return {
        "Retry-After": str(error.retry_after),
        "X-Concurrency-Limit": str(limit),
        "X-Concurrency-Active": str(error.active),
    }


async def on_http_exception(_request: Request, error: Exception) -> JSONResponse:
    """Convert Starlette's errors, such as unknown paths and methods."""
    if not isinstance(error, HTTPException):
        raise TypeError(error)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def on_validation_error(_request: Request, error: Exception) -> JSONResponse:
    """Convert validation errors of parameters and bodies."""
    if isinstance(error, RequestValidationError):
        return JSONResponse({"detail": _field_problems(error.errors())}, 422)
    if not isinstance(error, UnprocessableRequest):
        raise TypeError(error)
    return JSONResponse({"detail": error.fields}, 422)


async def on_disconnect(_request: Request, _error: Exception) -> Response:
    """Return a reply for the log; the client disconnected before it sent the whole request."""
    return Response(status_code=CLIENT_DISCONNECTED)


async def on_unexpected_error(_request: Request, error: Exception) -> JSONResponse:
    """Log an unexpected exception with its traceback and return a generic 500."""
    log.error("unhandled error", exc_info=error)
    return JSONResponse({"detail": "the service made an error; its log has the details"}, 500)


class UnprocessableRequest(Exception):
    """A request that fails validation; `fields` are the entries of the 422."""

    def __init__(self, fields: list[dict[str, Any]]) -> None:
        super().__init__("invalid request")
        self.fields = fields


HANDLERS: Final[dict[Any, Callable[..., Any]]] = {
    ApplicationError: on_service_error,
    UnprocessableRequest: on_validation_error,
    RequestValidationError: on_validation_error,
    HTTPException: on_http_exception,
    ClientDisconnect: on_disconnect,
    Exception: on_unexpected_error,
}


def json_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object; raises `UnprocessableRequest`."""
    try:
        body = parse_strict_json(raw)
    except InvalidJson as error:
        raise UnprocessableRequest([field_problem(("body",), str(error), "json_invalid")]) from None
    if not isinstance(body, dict):
        raise UnprocessableRequest([field_problem(("body",), "must be a JSON object", "dict_type")])
    return body
