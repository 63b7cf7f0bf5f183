"""Defines routers with strict request parsing, and the shared parts of their documentation.

A module of routes creates a `router`, and each of its functions is one operation::

    router = strict_router("jobs")

    @router.get(paths.JOBS, summary="List your jobs", response_model=JobList)
    @scopes("read")
    async def list_jobs(state: StateDep, account_id: AccountId, limit: ListLimit = 100) -> Response:
        ...

The decorator `scopes` names those that open it; a key needs one of them, and a route without them
raises. The function's name becomes the operation id (`listJobs`), and its docstring the
description. Parameters that it does not declare are a 422; numbers are parsed here, because
pydantic accepts " 1", "+1" and "1.0". It returns a `Response`; `response_model` is only used in the
document, and `responses=error_responses(404)` adds statuses to those of `ALWAYS`. A body is a
parameter of its model, annotated with `examples`.
`application.ROUTERS` lists the routers.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from importlib.resources import files
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

import orjson
from fastapi import APIRouter, Body, Depends, Header, Path, Query
from fastapi.dependencies.utils import request_params_to_args
from fastapi.openapi.models import Example
from fastapi.routing import APIRoute
from pydantic import BeforeValidator, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from webdata_nb.contract import limits, outcomes, paths
from webdata_nb.contract.choices import KeyScope
from webdata_nb.contract.operator_views import GROUPS, KINDS, MAX_ROWS, STATES, VIEWS
from webdata_nb.contract.replies import (
    LimitReached,
    PermissionRefusal,
    Refusal,
    Reply,
    SourceFailure,
    ValidationErrorReply,
)
from webdata_nb.page.errors import ApplicationError, BadInput
from webdata_nb.service.errors import NoSuchDelivery, NoSuchJob, ScopeMissing
from webdata_nb.service.observability.logs import Caller
from webdata_nb.service.routes.app_state import AppState

MAX_DEPTH: Final = limits.BODY_DEPTH
MAX_VALUES: Final = limits.BODY_VALUES
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)


class InvalidJson(ValueError):
    """The body is not valid or not unambiguous JSON; the message does not quote it."""


def parse_strict_json(raw: bytes) -> Any:
    """Parse a JSON body.

    Raises
    ------
    InvalidJson
        Invalid JSON, NaN or Infinity, nesting deeper than `MAX_DEPTH`, more than `MAX_VALUES`
        entries and fields in all, or a duplicate name, which parsers resolve differently.
    """
    try:
        value = orjson.loads(raw)  # noqa: TID251 - strict on purpose
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"not valid JSON: {error.msg}") from None
    # After the parser: on invalid JSON the search for strings could take quadratic time.
    depth = values = 0
    for token in _TOKENS.finditer(raw):
        mark = token[0]
        if mark in b"[{,":
            values += 1
            if values > MAX_VALUES:
                raise InvalidJson(f"more than {MAX_VALUES} list entries and fields in all")
        if mark == b",":
            continue
        if mark in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidJson(f"nested deeper than {MAX_DEPTH} levels")
        elif mark in b"]}":
            depth -= 1
    json.loads(  # noqa: TID251 - strict on purpose
        raw, object_pairs_hook=_refuse_duplicates, parse_int=_skip_number, parse_float=_skip_number
    )
    return value


def _skip_number(_digits: str) -> int:
    """Replace a number, because Python parses very long ones slowly."""
    return 0


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidJson("an object has the same name twice")


PAGES: Final = (1, 10**9)
_KEY: Final = re.compile(limits.IDEMPOTENCY_KEY_FORM)
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
_FORMATS: Final = ("json", "csv", "zip")
# A NUL, which PostgreSQL does not store, and halves of surrogate pairs, which UTF-8 does not have.
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def number(bounds: tuple[int, int]) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return the validator and the schema of a whole number in digits within `bounds`."""
    low, high = bounds

    def check(text: Any) -> int:
        digits = isinstance(text, str) and text.isascii() and text.isdecimal()
        if not digits or not low <= int(text[:12]) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return BeforeValidator(check), WithJsonSchema(
        {"type": "integer", "minimum": low, "maximum": high}
    )


def one_of(*allowed: str) -> BeforeValidator:
    """Return the validator of a choice."""

    def check(text: Any) -> Any:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return BeforeValidator(check)


def _flag(text: Any) -> bool:
    if not isinstance(text, str) or text.lower() not in _FLAGS:
        raise ValueError("must be true or false")
    return _FLAGS[text.lower()]


def _key(text: str) -> str:
    if len(text) > limits.IDEMPOTENCY_KEY_LENGTH or not _KEY.fullmatch(text):
        raise ValueError(f"must be 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable ASCII characters")
    return text


def _storable(text: str) -> str:
    """Refuse what no store takes, and what it would fail to look for."""
    if _UNSTORABLE.search(text):
        raise ValueError("must not contain NUL characters or lone surrogates")
    return text


def _id_or(error: type[ApplicationError], message: str) -> BeforeValidator:
    """Return the validator of an id in a path; one that nothing can have is as unknown as any."""

    def check(text: str) -> str:
        if _UNSTORABLE.search(text):
            raise error(message)
        return text

    return BeforeValidator(check)


class Listed(Protocol):
    """An entry of a listing, newest first."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def created_at(self) -> float:
        """When it was created, in seconds since the epoch."""


def list_cursor(last: Listed) -> str:
    """Return the cursor of the page after an entry."""
    return base64.urlsafe_b64encode(orjson.dumps([last.created_at, last.id])).decode()


def read_list_cursor(text: str | None) -> tuple[float, str] | None:
    """Return the time and the id in the cursor of a listing; raises `BadInput`."""
    if text is None:
        return None
    try:
        at, entry_id = orjson.loads(base64.urlsafe_b64decode(text))  # noqa: TID251 - ours, else refused
        return float(at), _storable(str(entry_id))
    except (ValueError, TypeError, binascii.Error):
        raise BadInput("not a cursor of this listing", loc=("query", "cursor")) from None


def _outcome(text: str) -> str:
    text = _storable(text)
    if text not in outcomes.MEANINGS and not text.startswith(outcomes.FAILED):
        allowed = ", ".join([*outcomes.MEANINGS, f"{outcomes.FAILED}<kind>"])
        raise ValueError(f"must be one of {allowed}")
    return text


def _advertiser(text: str) -> str:
    name = text.strip()
    if not name or len(name) > limits.ADVERTISER_QUERY_LENGTH or not name.isprintable():
        max_length = limits.ADVERTISER_QUERY_LENGTH
        raise ValueError(f"must be a name or a domain of 1 to {max_length} characters")
    return name


def text_parameter(
    check: Callable[[str], Any], **schema: Any
) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return the validator and the schema of a text."""
    return BeforeValidator(check), WithJsonSchema({"type": "string", **schema})


_STORABLE: Final = text_parameter(_storable)

JobId = Annotated[
    str,
    _id_or(NoSuchJob, "no such job"),
    Path(
        description="Id of the job, from the reply to its start.",
        json_schema_extra={"format": "uuid"},
    ),
]
DeliveryId = Annotated[
    str,
    _id_or(NoSuchDelivery, "no such delivery"),
    Path(
        description="Id of the delivery, from the list of deliveries.",
        json_schema_extra={"format": "uuid"},
    ),
]
Sha256 = Annotated[
    str,
    Path(
        description="SHA-256 of the file's bytes, in hexadecimal, as the creative has it.",
        json_schema_extra={"pattern": "^[0-9a-f]{64}$"},
    ),
]
IncludeData = Annotated[
    bool,
    BeforeValidator(_flag),
    Query(description="Whether the reply contains the rows; if false, `data` is empty."),
]
Wait = Annotated[
    int,
    *number((0, limits.STATUS_WAIT_S)),
    Query(description="Seconds to wait for the job's end before the reply (ours)."),
]
PageNumber = Annotated[int, *number(PAGES), Query(description="Page of the rows, from 1.")]
PerPage = Annotated[int, *number(limits.PER_PAGE), Query(description="Rows per page.")]
EntriesPerPage = Annotated[
    int, *number(limits.RECEIPT_PER_PAGE), Query(description="Entries per page.")
]
FactsPerPage = Annotated[int, *number(limits.PAGE_FACTS), Query(description="Entries per page.")]
ListLimit = Annotated[
    int, *number(limits.JOBS_LISTED), Query(description="Entries per page, newest first.")
]
Cursor = Annotated[str | None, *_STORABLE, Query(description="The `cursor` of the previous page.")]
ExportFormat = Annotated[
    Literal["json", "csv", "zip"],
    one_of(*_FORMATS),
    Query(description="File format."),
]
Outcome = Annotated[
    str | None,
    *text_parameter(_outcome),
    Query(description="Only entries with this outcome, such as `fetched` or `failed:http_404`."),
]
EntryUrl = Annotated[str | None, *_STORABLE, Query(description="Only the entry of this URL.")]
JobFilter = Annotated[str | None, *_STORABLE, Query(description="Only deliveries of this job.")]
AdvertiserQuery = Annotated[
    str,
    *text_parameter(_advertiser, minLength=1, maxLength=limits.ADVERTISER_QUERY_LENGTH),
    Query(description="A part of an advertiser's name, or its domain."),
]
AdvertiserLimit = Annotated[
    int, *number(limits.ADVERTISERS), Query(description="Most advertisers, best match first.")
]
ViewName = Annotated[
    str,
    Path(
        description=f"Name of the view: {', '.join(VIEWS)}.",
        json_schema_extra={"enum": [*VIEWS]},
    ),
]
AccountFilter = Annotated[
    str | None, *_STORABLE, Query(description="Only of this account, by its name or id.")
]
StateFilter = Annotated[
    str | None, Query(alias="state", description=f"Only jobs in this state: {', '.join(STATES)}.")
]
KindFilter = Annotated[
    str | None, Query(description=f"Only jobs of this kind: {', '.join(KINDS)}.")
]
SinceFilter = Annotated[
    str | None,
    Query(description="Since a period before now, such as 30m, 24h or 7d, or a date in UTC."),
]
GroupFilter = Annotated[
    str | None, Query(description=f"What sums are of, joined by commas: {', '.join(GROUPS)}.")
]
RowLimit = Annotated[str | None, Query(description=f"Most rows, up to {MAX_ROWS}; 100 by default.")]
TimeoutMs = Annotated[
    int,
    *number(limits.TIMEOUT_MS),
    Query(description="Timeout of the source, in milliseconds."),
]
IdempotencyKeyHeader = Annotated[
    str | None,
    *text_parameter(
        _key,
        minLength=1,
        maxLength=limits.IDEMPOTENCY_KEY_LENGTH,
        pattern=f"^{limits.IDEMPOTENCY_KEY_FORM}$",
    ),
    Header(
        alias=paths.IDEMPOTENCY_KEY,
        description="For 24 hours, a request with the same key and body returns the first job; "
        "with another body it is a 409.",
    ),
]


JSON: Final = "application/json"
REF: Final = "#/components/schemas/{model}"
# Any request may get these statuses before it reaches its operation.
ALWAYS: Final = (400, 401, 403, 408, 422, 429, 500, 503)
WITH_BODY: Final = (413, 415)
MEANINGS: Final[Mapping[int, str]] = {
    400: "Not a valid HTTP request, or the job's present state does not allow it",
    401: "Missing or invalid bearer credential",
    403: "The account of the key is suspended, or the key has no scope that opens the operation",
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
    403: PermissionRefusal,
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
    responses: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        # A reference instead of the model, for which FastAPI would build a validator on each route.
        schema = {"$ref": REF.format(model=ERROR_BODIES.get(status, Refusal).__name__)}
        headers = {"headers": dict(_HEADERS[status])} if status in _HEADERS else {}
        content = {JSON: {"schema": schema}}
        responses[status] = {"description": MEANINGS[status], **headers, "content": content}
    return responses


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


_EXAMPLES: Final = orjson.loads((files(__package__) / "examples.json").read_bytes())  # noqa: TID251 - our own


def examples(operation: str) -> Any:
    """Return the annotation of a body parameter, with the operation's documented examples."""
    by_name = {
        name.replace(" ", "-"): Example(summary=name, value=value)
        for name, value in _EXAMPLES[operation].items()
    }
    return Body(openapi_examples=by_name)


class UnprocessableRequest(Exception):
    """A request that fails validation; `fields` are the entries of the 422."""

    def __init__(self, fields: list[dict[str, Any]]) -> None:
        super().__init__("invalid request")
        self.fields = fields


def field_problem(loc: tuple[str | int, ...], message: str, kind: str) -> dict[str, Any]:
    """Return one entry of a 422; the message must not contain the value."""
    return {"loc": list(loc), "msg": message, "type": kind}


_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])
_SCOPES_OF: Final[dict[Callable[..., Any], tuple[KeyScope, ...]]] = {}


def scopes(*names: KeyScope) -> Callable[[_Endpoint], _Endpoint]:
    """Return the decorator, next to the function, of an operation that each of `names` opens."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        _SCOPES_OF[endpoint] = names
        return endpoint

    return declare


def check_scope(caller: Caller, *needed: KeyScope) -> None:
    """Raise `ScopeMissing` unless a key has one of the scopes."""
    if caller.scopes.isdisjoint(needed):
        raise ScopeMissing(needed, caller.scopes)


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
    """A route that needs a key with one of its scopes, and rejects undeclared query parameters.

    `json_object` parses the body strictly. A GET with valid parameters calls its function directly,
    because FastAPI's handling of parameters and dependencies takes longer than most functions.
    FastAPI handles other requests, and reports what is wrong with the parameters.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.scopes: tuple[KeyScope, ...] = _SCOPES_OF.get(endpoint, ())
        if not self.scopes:
            raise TypeError(f"declare the scopes of {endpoint.__name__}, the operation at {path}")
        options["openapi_extra"] = {
            # Any of these suffices, the key with the scope in each.
            "security": [{"bearer": [scope]} for scope in self.scopes],
            **(options.get("openapi_extra") or {}),
        }
        body = WITH_BODY if "POST" in (options.get("methods") or ()) else ()
        options["responses"] = error_responses(*ALWAYS, *body) | (options.get("responses") or {})
        super().__init__(path, endpoint, **options)
        names = " or ".join(f"`{scope}`" for scope in self.scopes)
        text = f"{self.description}\n\nNeeds a key with the scope {names}."
        self.description: str = text.lstrip()
        self._is_read = (
            "GET" in (self.methods or ())
            and not self.dependant.header_params
            and all(
                each.name and each.call in {app_state_of, _account_of, _caller_of}
                for each in self.dependant.dependencies
            )
        )
        self._known_names = {field.alias for field in self.dependant.query_params}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a key that has the scope, whatever else is wrong with it."""
        check_scope(scope["state"]["caller"], *self.scopes)
        response = None
        if self._is_read and (scope["method"] == "GET" or self._is_head(scope)):
            response = await self.read(Request(scope, receive))
        if response is None:
            await super().handle(scope, receive, send)
        else:
            await response(scope, receive, send)

    async def read(self, request: Request) -> Response | None:
        """Return the response to a GET; None for a request that FastAPI handles."""
        query, dependant = request.query_params, self.dependant
        arguments, path_errors = request_params_to_args(dependant.path_params, request.path_params)
        options, query_errors = request_params_to_args(dependant.query_params, query)
        if path_errors or query_errors or not query.keys() <= self._known_names:
            return None
        arguments |= options
        for each in dependant.dependencies:
            if each.name and each.call:
                arguments[each.name] = await each.call(request)
        if dependant.request_param_name:
            arguments[dependant.request_param_name] = request
        response: Response = await self.endpoint(**arguments)
        return response

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, preceded by the strict checks."""
        handle = super().get_route_handler()
        with_body = self.body_field is not None

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                unknown = [name for name in request.query_params if name not in self._known_names]
                if unknown:
                    allowed = ", ".join(sorted(self._known_names)) or "none"
                    message = f"is not a query parameter of this operation; allowed: {allowed}"
                    raise UnprocessableRequest(
                        [
                            field_problem(("query", name), message, "extra_forbidden")
                            for name in unknown
                        ]
                    )
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


def json_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object; raises `UnprocessableRequest`."""
    try:
        body = parse_strict_json(raw)
    except InvalidJson as error:
        raise UnprocessableRequest([field_problem(("body",), str(error), "json_invalid")]) from None
    if not isinstance(body, dict):
        raise UnprocessableRequest([field_problem(("body",), "must be a JSON object", "dict_type")])
    return body


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


async def _caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


StateDep = Annotated[AppState, Depends(app_state_of)]
AccountId = Annotated[str, Depends(_account_of)]
"""The account of the request's key."""
CallerDep = Annotated[Caller, Depends(_caller_of)]
"""The request's key, for operations that depend on its scopes."""
