"""Builds the FastAPI application and its OpenAPI document, and maps exceptions to error replies."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, Literal

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from webdata_nb import __version__
from webdata_nb.contract.error_messages import REFUSED, SCOPE, plain_message
from webdata_nb.contract.events import STREAMED
from webdata_nb.contract.replies import Refusal
from webdata_nb.page.errors import ApplicationError, BadInput
from webdata_nb.service.errors import (
    AccountLimitReached,
    AccountSuspended,
    IdempotencyConflict,
    InvalidJobState,
    MissingSetting,
    NoSuchDelivery,
    NoSuchJob,
    NothingToExport,
    ResultsExpired,
    ScopeMissing,
    SourceAccessDenied,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceTimeout,
    StoreUnavailable,
    UnreadableSecrets,
)
from webdata_nb.service.http.client_limits import concurrency_headers
from webdata_nb.service.http.middleware import SERVICE_UNAVAILABLE, store_unavailable
from webdata_nb.service.routes import (
    crawl,
    creatives,
    jobs,
    open_endpoints,
    operator,
    results,
    search,
    webhooks,
)
from webdata_nb.service.routes import credits as credit
from webdata_nb.service.routes.routing import ERROR_BODIES, REF, UnprocessableRequest, field_problem

ROUTERS: Final = (
    search.router,
    crawl.router,
    jobs.router,
    results.router,
    open_endpoints.router,
    creatives.router,
    webhooks.router,
    credit.router,
    operator.router,
    operator.page_router,
)
_TEXT: Final = """\
Search, crawl and advertiser creatives as jobs over HTTP. Start a job, read its status until it is
completed, failed or cancelled, then export it. Bodies are JSON; every error body is an
object with a `detail`.

Every request except health checks and this document needs a key: `Authorization: Bearer KEY`. A
key may be limited to scopes; each operation names those that open it, of which the key needs one.
Times are UTC. Durations are seconds unless their name or description says milliseconds. Items
marked *(ours)* are extensions of this service.
"""
_TAGS: Final = {
    "search": "Results of a query from search providers, in fallback order; scraped on request.",
    "crawl": "Pages of a site, and the outcome of every URL that was seen.",
    "jobs": "Jobs of either kind: list, cancel, retry, delete.",
    "creatives": "Ads of an advertiser, in the reply to the request.",
    "webhooks": "Webhook deliveries to your endpoints.",
    "usage": "Prices in credits, and credits used.",
    "operator": "What the operator of a service asks, of all accounts; needs the scope `admin`.",
    "service": "Health, and this document.",
}
# Replies hold rows as plain objects; the document names their models.
_ROW_MODELS: Final = frozenset({"SearchItem", "CrawlPage", "Creative", "PageFacts"})


class Application(FastAPI):
    """The service's application; its `state` has `app_state` and `readiness`."""

    def __init__(self, extra_routes: Sequence[BaseRoute] = ()) -> None:
        routes = [route for router in ROUTERS for route in router.routes]
        super().__init__(
            title="webdata_nb",
            version=__version__,
            description=_TEXT,
            license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
            openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
            servers=[{"url": "/"}],
            # Not included as routers: FastAPI would match each request twice.
            routes=[*routes, *extra_routes],
            webhooks=webhooks.operations,
            exception_handlers=HANDLERS,
            # A redirect would trust the Host header, and the contract has none.
            redirect_slashes=False,
            # A model that requests and replies share has the same schema in both.
            separate_input_output_schemas=False,
            openapi_url=None,
            # `RequestLogMiddleware` logs and counts requests, also those that the gate rejects.
            telemetry={"tracing": False, "metrics": False, "logs": False},
        )

    def openapi(self) -> dict[str, Any]:
        """Return the document; every operation needs a key unless its route is open."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        document = super().openapi()
        schemas = document["components"]["schemas"]
        for schema in list(schemas.values()):
            for field in schema.get("properties", {}).values():
                # Replies have the schema of their rows inlined: move it to a named component.
                row = field.get("items", {})
                if (model := row.get("title")) in _ROW_MODELS:
                    schemas.setdefault(model, row)
                    field["items"] = {"$ref": REF.format(model=model)}
        # Of error bodies, and of the events that streams send as JSON text.
        replies: list[type[BaseModel]] = [Refusal, *ERROR_BODIES.values(), *STREAMED.values()]
        models: list[tuple[type[BaseModel], Literal["validation"]]] = [
            (reply, "validation") for reply in replies
        ]
        _, referenced = models_json_schema(models, ref_template=REF)
        for name, schema in referenced["$defs"].items():
            schemas.setdefault(name, schema)
        operations = (each.values() for each in document["paths"].values())
        for operation in chain.from_iterable(operations):
            _describe_defaults(operation.get("requestBody", {}), schemas)
        document["components"]["schemas"] = dict(sorted(schemas.items()))
        document["components"]["securitySchemes"] = {"bearer": _BEARER}
        document["security"] = [{"bearer": []}]
        return document


_BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key of an account, or the token of a local service.",
}


def _describe_defaults(body: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Move the defaults of a request's fields into their descriptions.

    Generators take a field with a default for one that is always there, as it is in a reply, and
    let their users state every option of a request.
    """
    pending: list[Any] = [content["schema"] for content in body.get("content", {}).values()]
    for schema in pending:
        schema.pop("default", None)
    seen: set[str] = set()
    while pending:
        schema = pending.pop()
        name = schema.get("$ref", "").rpartition("/")[2]
        if name and name not in seen:
            seen.add(name)
            pending.append(schemas[name])
        for field in schema.get("properties", {}).values():
            default = field.pop("default", None)
            if default is not None and default != [] and not isinstance(default, dict):
                text = f"Default: `{orjson.dumps(default).decode()}`."
                field["description"] = f"{field.get('description', '')} {text}".lstrip()
            pending.append(field)
        inner = (schema.get("items"), schema.get("additionalProperties"))
        pending += [each for each in inner if isinstance(each, dict)]
        for key in ("anyOf", "oneOf", "allOf"):
            pending += schema.get(key, [])


def openapi() -> dict[str, Any]:
    """Return the document without a running service."""
    return Application().openapi()


log: Final = logging.getLogger(__name__)

# nginx's status for a client that disconnected; only the log and metrics show it.
CLIENT_DISCONNECTED: Final = 499

# Entries of a 422; one further entry counts those left out.
MAX_FIELD_PROBLEMS: Final = 100

STATUS: Final[dict[type[ApplicationError], int]] = {
    BadInput: 422,
    AccountSuspended: 403,
    ScopeMissing: 403,
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
    code: dict[str, str] = {}
    headers: dict[str, str] | None = None
    if isinstance(error, SourceBusy):
        headers = {"Retry-After": str(math.ceil(error.retry_after_s))}
    elif isinstance(error, AccountLimitReached):
        code = {"code": error.code}
        # An account without a limit gets its active count plus one.
        limit = error.active + 1 if error.limit is None else error.limit
        headers = concurrency_headers(limit, error.active, retry_after_s=error.retry_after)
    elif isinstance(error, SourceAccessDenied | SourceRefused):
        code = {"code": REFUSED}
    elif isinstance(error, ScopeMissing):
        code = {"code": SCOPE}
    return JSONResponse({"detail": str(error), **code}, status, headers)


async def on_http_exception(_request: Request, error: Exception) -> JSONResponse:
    """Convert Starlette's errors, such as unknown paths and methods."""
    if not isinstance(error, HTTPException):
        raise TypeError(error)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def on_validation_error(_request: Request, error: Exception) -> JSONResponse:
    """Convert validation errors of parameters and bodies; values are never echoed."""
    if isinstance(error, UnprocessableRequest):
        return JSONResponse({"detail": error.fields}, 422)
    if not isinstance(error, RequestValidationError):
        raise TypeError(error)
    problems = error.errors()
    entries = []
    for problem in problems[:MAX_FIELD_PROBLEMS]:
        # Pydantic's name for a branch of a union is no name of a field.
        loc = tuple(
            part
            for part in problem["loc"]
            if not (isinstance(part, str) and ("[" in part or part in {"str", "int", "bool"}))
        )
        entries.append(field_problem(loc, plain_message(problem), problem["type"]))
    if (omitted_count := len(problems) - MAX_FIELD_PROBLEMS) > 0:
        entries.append(
            field_problem(("body",), f"has {omitted_count} more problems", "too_many_problems")
        )
    return JSONResponse({"detail": entries}, 422)


async def on_disconnect(_request: Request, _error: Exception) -> Response:
    """Return a reply for the log; the client disconnected before it sent the whole request."""
    return Response(status_code=CLIENT_DISCONNECTED)


async def on_unexpected_error(_request: Request, error: Exception) -> JSONResponse:
    """Log an unexpected exception with its traceback and return a generic 500."""
    log.error("unhandled error", exc_info=error)
    return JSONResponse({"detail": "the service made an error; its log has the details"}, 500)


HANDLERS: Final[dict[Any, Callable[..., Any]]] = {
    ApplicationError: on_service_error,
    UnprocessableRequest: on_validation_error,
    RequestValidationError: on_validation_error,
    HTTPException: on_http_exception,
    ClientDisconnect: on_disconnect,
    Exception: on_unexpected_error,
}
