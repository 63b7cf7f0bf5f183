"""Defines routers with strict request parsing, and the shared parts of their documentation.

A module of routes creates a `router`, and each of its functions is one operation::

    router = strict_router("jobs")

    @router.get(paths.JOBS, summary="List your jobs", response_model=JobList)
    async def list_jobs(state: StateDep, account_id: AccountId, limit: ListLimit = 100) -> Response:
        ...

The function's name becomes the operation id (`listJobs`), and its docstring the description.
Parameters that it does not declare (see `parameters.py`) are a 422. It returns a `Response`;
`response_model` is only used in the document, and `responses=error_responses(404)` adds statuses
to those of `ALWAYS`. A body is a parameter of its model, annotated with `examples`.
`application.ROUTERS` lists the routers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Depends
from fastapi.dependencies.models import Dependant
from fastapi.openapi.models import Example
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from webdata_nb.contract import limits
from webdata_nb.contract.examples import EXAMPLES
from webdata_nb.contract.replies import (
    LimitReached,
    Refusal,
    Reply,
    SourceFailure,
    ValidationErrorReply,
)
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.error_responses import (
    UnprocessableRequest,
    field_problem,
    json_object,
)

JSON: Final = "application/json"
REF: Final = "#/components/schemas/{model}"
# Any request may get these statuses before it reaches its operation.
ALWAYS: Final = (400, 401, 408, 422, 429, 500, 503)
WITH_BODY: Final = (413, 415)
MEANINGS: Final[Mapping[int, str]] = {
    400: "Not a valid HTTP request, or the job's present state does not allow it",
    401: "Missing or invalid bearer credential",
    404: "Unknown, owned by another account, or nothing to export",
    408: "Headers or body took longer than 10 seconds",
    409: "The same Idempotency-Key with another body, or secrets that no key decrypts",
    410: "Past retention: start a new job",
    413: f"The body is larger than {limits.BODY_BYTES // 1024} KiB",
    415: "The body is not JSON by its Content-Type",
    422: "A field or a parameter is invalid; the reply does not contain its value",
    429: "A limit of the account is reached: credits, active jobs, or requests at once",
    500: "An internal error",
    501: "Needs a setting that this service does not have",
    502: "The source blocks this service, or its reply is unusable",
    503: "Too many connections, the disk is full, or the source is rate-limited",
    504: "The source did not reply in time",
}
_COUNT: Final = {"type": "integer", "minimum": 0}
_HEADERS: Final[Mapping[int, Mapping[str, Any]]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}},
    429: {
        "Retry-After": {"description": "Whole seconds.", "schema": _COUNT, "required": True},
        "X-Concurrency-Limit": {
            "description": "Jobs and calls that the plan allows at once.",
            "schema": _COUNT,
            "required": True,
        },
        "X-Concurrency-Active": {
            "description": "Jobs and calls that are active.",
            "schema": _COUNT,
            "required": True,
        },
    },
}
ERROR_BODIES: Final[Mapping[int, type[Reply]]] = {
    422: ValidationErrorReply,
    429: LimitReached,
    502: SourceFailure,
}


_VALIDATORS: Final = {
    "ETag": {
        "description": "Entity tag of replies about ended jobs, and of other replies from 4 KiB.",
        "schema": {"type": "string"},
    },
    "Vary": {
        "description": "`Accept-Encoding`: replies from 4 KiB are sent as gzip on request.",
        "schema": {"type": "string"},
    },
}
CONDITION: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "If-None-Match",
            "in": "header",
            "required": False,
            "description": "The ETag of an earlier reply; the reply is a 304 if it is unchanged.",
            "schema": {"type": "string"},
        }
    ]
}
"""The `openapi_extra=` of a read that goes with `conditional()`."""


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of an operation with these statuses besides `ALWAYS`."""
    return {status: _error_response(status) for status in statuses}


def _error_response(status: int) -> dict[str, Any]:
    # A reference instead of the model, for which FastAPI would build a validator on each route.
    schema = {"$ref": REF.format(model=ERROR_BODIES.get(status, Refusal).__name__)}
    response: dict[str, Any] = {"description": MEANINGS[status]}
    if status in _HEADERS:
        response["headers"] = dict(_HEADERS[status])
    return response | {"content": {JSON: {"schema": schema}}}


def conditional(ok: Mapping[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a conditional GET; `ok` extends the response 200."""
    return {
        200: {**(ok or {}), "headers": _VALIDATORS},
        304: {
            "description": "Not modified: If-None-Match contains the reply's ETag; no body",
            "headers": _VALIDATORS,
        },
    }


def links(targets: Mapping[str, str]) -> dict[str, Any]:
    """Return a response's links: operations, and the reply's field for their path parameter."""
    return {
        target: {
            "operationId": target,
            "parameters": {f"path.{name}": f"$response.body#/{name}"},
        }
        for target, name in targets.items()
    }


def examples(operation: str) -> Any:
    """Return the annotation of a body parameter, with the operation's documented examples."""
    by_name = {
        name.replace(" ", "-"): Example(summary=name, value=value)
        for name, value in EXAMPLES[operation].items()
    }
    return Body(openapi_examples=by_name)


class OpenRoute(APIRoute):
    """A route that answers HEAD like GET; FastAPI's routes answer 405."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match HEAD where GET is allowed."""
        match, child = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL and self._is_head(scope) else match), child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle HEAD like GET; the server omits the body."""
        if self._is_head(scope):
            await self.app(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    def _is_head(self, scope: Scope) -> bool:
        return scope["method"] == "HEAD" and "GET" in (self.methods or ())


class StrictRoute(OpenRoute):
    """A route that needs a key and rejects undeclared query parameters.

    `json_object` parses the body strictly.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        body = WITH_BODY if "POST" in (options.get("methods") or ()) else ()
        options["responses"] = error_responses(*ALWAYS, *body) | (options.get("responses") or {})
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, preceded by the strict checks."""
        handle = super().get_route_handler()
        known_names = frozenset(_query_names(self.dependant))
        with_body = self.body_field is not None

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                _check_names(request, known_names)
            if with_body:
                request = _JsonRequest(request.scope, request.receive)
                await request.json()  # cached, so FastAPI does not parse it again
            return await handle(request)

        return strict


class _JsonRequest(Request):
    """A request whose body `json_object` parses; an empty body is an empty object."""

    async def json(self) -> Any:
        """Return the parsed body."""
        if not hasattr(self, "_json"):
            raw = await self.body()
            self._json = json_object(raw) if raw.strip() else {}
        return self._json


def _query_names(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters that a route and its dependencies declare."""
    for field in dependant.query_params:
        yield field.alias
    for dependency in dependant.dependencies:
        yield from _query_names(dependency)


def _check_names(request: Request, known_names: frozenset[str]) -> None:
    unknown = [name for name in request.query_params if name not in known_names]
    if unknown:
        allowed = ", ".join(sorted(known_names)) or "none"
        message = f"is not a query parameter of this operation; allowed: {allowed}"
        raise UnprocessableRequest(
            [field_problem(("query", name), message, "extra_forbidden") for name in unknown]
        )


def _operation_id(route: APIRoute) -> str:
    first_word, *other_words = route.name.split("_")
    return first_word + "".join(map(str.capitalize, other_words))


def strict_router(*tags: str, route_class: type[StrictRoute] = StrictRoute) -> APIRouter:
    """Return a router for operations that need a key, listed under `tags` in the document."""
    return APIRouter(
        route_class=route_class, tags=[*tags], generate_unique_id_function=_operation_id
    )


def open_router(*tags: str) -> APIRouter:
    """Return a router for operations that need no key and ignore the query."""
    return APIRouter(route_class=OpenRoute, tags=[*tags], generate_unique_id_function=_operation_id)


# `openapi_extra=` of operations that need no key.
NO_AUTHENTICATION: Final[dict[str, Any]] = {"security": []}


async def app_state_of(request: Request) -> AppState:
    """Return the shared objects of the route handlers."""
    state: AppState = request.app.state.app_state
    return state


async def _account_of(request: Request) -> str:
    return str(request.state.account_id)


StateDep = Annotated[AppState, Depends(app_state_of)]
AccountId = Annotated[str, Depends(_account_of)]
"""The account of the request's key."""
