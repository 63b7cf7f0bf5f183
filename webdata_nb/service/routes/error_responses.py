"""From what went wrong to a status and a body of the documented shape: the one table."""

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
from webdata_nb.service.errors import (
    AccountLimitReached,
    ApplicationError,
    BadInput,
    IdempotencyConflict,
    InvalidJobState,
    MissingSetting,
    NoSuchDelivery,
    NoSuchJob,
    NothingToExport,
    ResultsExpired,
    SourceBusy,
    SourceError,
    SourceTimeout,
    StoreUnavailable,
    UnreadableSecrets,
)
from webdata_nb.service.http.json_bodies import InvalidJson, parse_strict_json

log = logging.getLogger(__name__)

# For log and metrics alone, as nginx has it: nobody is there to read it.
HUNG_UP: Final = 499
# Seconds until a start that the store could not take is worth another try.
STORE_RETRY_S: Final = 5

# Entries of a 422; one more tells how many it leaves out.
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
    StoreUnavailable: 503,
    MissingSetting: 501,
    SourceBusy: 503,
    SourceTimeout: 504,
    SourceError: 502,  # the first that fits counts, so the root comes last
}


def field_problem(loc: tuple[str | int, ...], message: str, kind: str) -> dict[str, Any]:
    """Return one entry of a 422; the message must not repeat the value."""
    return {"loc": list(loc), "msg": message, "type": kind}


def _fields_of(problems: Sequence[Any]) -> list[dict[str, Any]]:
    """Return pydantic's problems as the contract's list; values are never echoed."""
    listed = [
        field_problem(
            tuple(part for part in each["loc"] if not _is_branch(part)),
            plain_message(each),
            each["type"],
        )
        for each in problems[:MAX_FIELD_PROBLEMS]
    ]
    if (left := len(problems) - MAX_FIELD_PROBLEMS) > 0:
        listed.append(field_problem(("body",), f"has {left} more problems", "too_many_problems"))
    return listed


def _is_branch(part: str | int) -> bool:
    """Tell the names that pydantic gives to the branches of a union from field names."""
    return isinstance(part, str) and ("[" in part or part in {"str", "int", "bool"})


async def on_service_error(request: Request, error: Exception) -> JSONResponse:
    """Answer what the service raised on purpose; its kind is noted for the log."""
    request.scope.setdefault("state", {})["refusal"] = type(error).__name__
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    if isinstance(error, BadInput):
        return JSONResponse(
            {"detail": [field_problem(error.loc, str(error), "value_error")]}, status
        )
    code = {"code": error.code} if isinstance(error, AccountLimitReached) else {}
    return JSONResponse({"detail": str(error), **code}, status, _headers(error))


def _headers(error: Exception) -> dict[str, str] | None:
    if isinstance(error, StoreUnavailable):
        return {"Retry-After": str(STORE_RETRY_S)}
    if isinstance(error, SourceBusy):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    return _limits(error) if isinstance(error, AccountLimitReached) else None


def _limits(error: AccountLimitReached) -> dict[str, str]:
    """Return the three headers of every 429; without a limit, one more than is active."""
    limit = error.active + 1 if error.limit is None else error.limit
    return {
        "Retry-After": str(error.retry_after),
        "X-Concurrency-Limit": str(limit),
        "X-Concurrency-Active": str(error.active),
    }


async def on_http_exception(_request: Request, error: Exception) -> JSONResponse:
    """Answer unknown paths and methods."""
    if not isinstance(error, HTTPException):
        raise TypeError(error)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def on_invalid(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request that does not fit its operation's parameters or body."""
    if isinstance(error, RequestValidationError):
        return JSONResponse({"detail": _fields_of(error.errors())}, 422)
    if not isinstance(error, UnprocessableRequest):
        raise TypeError(error)
    return JSONResponse({"detail": error.fields}, 422)


async def on_disconnect(_request: Request, _error: Exception) -> Response:
    """Answer nobody: the caller hung up before the request was whole."""
    return Response(status_code=HUNG_UP)


async def on_crash(_request: Request, error: Exception) -> JSONResponse:
    """Answer our own mistakes: the log has the details, the caller a sentence."""
    log.error("unhandled error", exc_info=error)
    return JSONResponse({"detail": "the service made an error; its log has the details"}, 500)


class UnprocessableRequest(Exception):
    """A request that does not fit its model."""

    def __init__(self, fields: list[dict[str, Any]]) -> None:
        super().__init__("invalid request")
        self.fields = fields


HANDLERS: Final[dict[Any, Callable[..., Any]]] = {
    ApplicationError: on_service_error,
    UnprocessableRequest: on_invalid,
    RequestValidationError: on_invalid,
    HTTPException: on_http_exception,
    ClientDisconnect: on_disconnect,
    Exception: on_crash,
}


def json_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object that `raw` says, or raise `UnprocessableRequest`."""
    try:
        body = parse_strict_json(raw)
    except InvalidJson as error:
        raise UnprocessableRequest([field_problem(("body",), str(error), "json_invalid")]) from None
    if not isinstance(body, dict):
        raise UnprocessableRequest([field_problem(("body",), "must be a JSON object", "dict_type")])
    return body
