"""Answers an operator's questions about all accounts, as JSON and as a page for a browser.

The page only reads. Its script loads it again whenever its event stream says that something has
changed; requests of the same seconds share what was read from the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final, TypeVar

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from webdata_nb.contract import paths
from webdata_nb.contract.operator_views import VIEWS, Query, View
from webdata_nb.contract.replies import CancelReply, OperatorAnswer, OperatorJob
from webdata_nb.contract.requests import NoParameters
from webdata_nb.page.errors import ApplicationError, BadInput
from webdata_nb.service.errors import NoSuchAccount
from webdata_nb.service.observability.logs import Caller
from webdata_nb.service.routes import operator_page
from webdata_nb.service.routes.app_state import ANSWER_S, AppState
from webdata_nb.service.routes.jobs import cancel
from webdata_nb.service.routes.operator_page import OVERVIEW_FILTERS, Given, Overview
from webdata_nb.service.routes.results import (
    EVENT_STREAM,
    KEEPALIVE_S,
    KEY_ENDED,
    RECONNECT,
    STILL_HERE,
    is_valid,
    wait_unless_stopped,
)
from webdata_nb.service.routes.routing import (
    AccountFilter,
    GroupFilter,
    JobId,
    KindFilter,
    RowLimit,
    SinceFilter,
    StateDep,
    StateFilter,
    StrictRoute,
    ViewName,
    error_responses,
    examples,
    scopes,
    strict_router,
)
from webdata_nb.service.store.sql.operator import Answer

T = TypeVar("T")
# Measuring all tables takes long.
_SIZE_S: Final = 60.0
_NO_PARAMETERS: Final = NoParameters()

router: Final = strict_router("operator")


@router.get(
    paths.OPERATOR_VIEW,
    summary="Answer a question about all accounts (ours)",
    response_model=OperatorAnswer,
    responses=error_responses(404),
)
@scopes("admin")
async def get_operator_view(
    state: StateDep,
    view: ViewName,
    account: AccountFilter = None,
    job_state: StateFilter = None,
    kind: KindFilter = None,
    since: SinceFilter = None,
    by: GroupFilter = None,
    limit: RowLimit = None,
) -> Response:
    """Read a view of the operator: the rows of `webdata store NAME`, or `webdata accounts usage`.

    Each view takes some of the filters. Another one, or a wrong value, is a 422 that says what is
    allowed; so is an account that does not exist.
    """
    given = _given(account=account, state=job_state, kind=kind, since=since, by=by, limit=limit)
    chosen = _view(view)
    answer = await _answer(state, chosen, given, _query(state, chosen, given))
    reply = {
        "view": chosen.name,
        "question": chosen.question,
        "as_of": answer.as_of,
        "columns": [{"name": each.name, "kind": each.kind} for each in answer.columns],
        "rows": answer.rows,
    }
    return Response(orjson.dumps(reply), media_type="application/json")


@router.get(
    paths.OPERATOR_JOB,
    summary="Read a job of any account (ours)",
    response_model=OperatorJob,
    responses=error_responses(404),
)
@scopes("admin")
async def get_operator_job(state: StateDep, job_id: JobId) -> Response:
    """Read what `webdata jobs show` prints: why a job failed, what became of its URLs."""
    job = await state.store.operator.job(job_id)
    return Response(orjson.dumps(job), media_type="application/json")


@router.post(
    paths.OPERATOR_JOB_CANCEL,
    summary="Cancel a pending or running job of any account (ours)",
    response_model=CancelReply,
    responses=error_responses(404),
)
@scopes("admin")
async def cancel_operator_job(
    state: StateDep,
    job_id: JobId,
    _body: Annotated[NoParameters, examples("cancelJob")] = _NO_PARAMETERS,
) -> Response:
    """Cancel a job as its owner can: its rows so far are kept and charged, its webhook is sent."""
    return await cancel(state, await state.store.operator.owner(job_id), job_id)


def _given(**filters: str | None) -> dict[str, str]:
    """Return the filters that a request has."""
    return {name: text for name, text in filters.items() if text is not None}


def _view(name: str) -> View:
    if name not in VIEWS:
        raise HTTPException(404, f"no such view; there are {', '.join(VIEWS)}")
    return VIEWS[name]


def _query(state: AppState, view: View, given: Given) -> Query:
    """Return the query of a view; raises `BadInput`."""
    try:
        return view.query(given, state.store.now())
    except ValueError as error:
        raise BadInput(str(error), loc=("query",)) from None


async def _answer(state: AppState, view: View, given: Given, query: Query) -> Answer:
    """Return the answer of a view; raises `BadInput` for an unknown account."""
    try:
        return await state.operator_answers.get(
            (view.name, *sorted(given.items())),
            lambda: state.store.operator.answer(view.name, query),
            shared_s=_SIZE_S if view.name == "size" else ANSWER_S,
        )
    except NoSuchAccount as error:
        raise BadInput(str(error), loc=("query", "account")) from None


# The page

# No other origin, no inline script or style, and no frame of another page around it.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_FILES: Final = Path(__file__).with_name("operator_files")
# What takes longer is left out of the overview; it is there when the page is loaded again.
_PATIENCE_S: Final = 2.0
# Between two events, so that a page is not loaded more often.
_CHANGE_INTERVAL_S: Final = 2.0
_CHANGE: Final = b"event: change\ndata: {}\n\n"
# Larger tables are rendered on another thread.
_MOST_ROWS_INLINE: Final = 200


class PageRoute(StrictRoute):
    """A route whose errors are pages too."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        try:
            await super().handle(scope, receive, send)
        except (ApplicationError, HTTPException) as error:
            kind = HTTPException if isinstance(error, HTTPException) else ApplicationError
            handler = scope["app"].exception_handlers[kind]
            reply = await handler(Request(scope, receive), error)
            detail = orjson.loads(reply.body)["detail"]  # noqa: TID251 - written just before
            message = detail if isinstance(detail, str) else detail[0]["msg"]
            title = HTTPStatus(reply.status_code).phrase
            headers = {
                name: value for name, value in reply.headers.items() if name == "retry-after"
            }
            page = operator_page.error_page(title, message)
            await HTMLResponse(page, reply.status_code, headers | _HEADERS)(scope, receive, send)


page_router: Final = strict_router(route_class=PageRoute)


@page_router.get(paths.OPERATOR_PAGE, include_in_schema=False)
@scopes("admin")
async def show_overview(state: StateDep) -> Response:
    """Show what is going on."""
    answers, report = await asyncio.gather(
        asyncio.gather(
            *(
                _soon(_answer(state, VIEWS[name], given, _query(state, VIEWS[name], given)))
                for name, given in OVERVIEW_FILTERS.items()
            ),
        ),
        _soon(state.operator_answers.get("report", state.store.operator.report)),
    )
    overview = Overview(
        report, dict(zip(OVERVIEW_FILTERS, answers, strict=True)), state.store.now()
    )
    return HTMLResponse(operator_page.overview_page(overview), headers=_HEADERS)


async def _soon(answer: Awaitable[T]) -> T | None:
    """Return an answer, or None if it takes long; the next page may have it."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await answer
    except TimeoutError:
        return None


@page_router.get(paths.OPERATOR_EVENTS, include_in_schema=False)
@scopes("admin")
async def watch_changes(request: Request, state: StateDep) -> Response:
    """Say when something has changed, every two seconds at most."""
    headers = {"Cache-Control": "no-store"}
    if request.method == "HEAD":
        return Response(media_type=EVENT_STREAM, headers=headers)
    stream = _changes(state, request.state.look_up_caller)
    return StreamingResponse(stream, media_type=EVENT_STREAM, headers=headers)


async def _changes(
    state: AppState, look_up_caller: Callable[[], Awaitable[Caller | None]]
) -> AsyncIterator[bytes]:
    """Yield an event after changes of the database, until the key ends or the process stops."""
    version, sent_at = state.store.data_version(), time.monotonic()
    yield STILL_HERE  # the client knows that the stream is open
    with state.events.listen("") as listener:  # no job has this id: it wakes at the end alone
        while True:
            await wait_unless_stopped(state, listener, _CHANGE_INTERVAL_S)
            if state.events.closed:
                yield RECONNECT
                return
            if not await is_valid(look_up_caller):
                yield KEY_ENDED
                return
            previous, version = version, state.store.data_version()
            if version != previous:
                yield _CHANGE
            elif time.monotonic() - sent_at >= KEEPALIVE_S:
                yield STILL_HERE
            else:
                continue
            sent_at = time.monotonic()


@page_router.get(paths.OPERATOR_STYLE, include_in_schema=False)
@scopes("admin")
async def get_operator_style() -> Response:
    """Return the style of the page."""
    return FileResponse(_FILES / "operator.css", media_type="text/css", headers=_HEADERS)


@page_router.get(paths.OPERATOR_SCRIPT, include_in_schema=False)
@scopes("admin")
async def get_operator_script() -> Response:
    """Return what loads the page again."""
    return FileResponse(_FILES / "operator.js", media_type="text/javascript", headers=_HEADERS)


@page_router.get(paths.OPERATOR_PAGE_JOB, include_in_schema=False)
@scopes("admin")
async def show_job(state: StateDep, job_id: JobId) -> Response:
    """Show one job, and the commands that act on it."""
    job = await state.store.operator.job(job_id)
    return HTMLResponse(operator_page.job_page(job, state.store.now()), headers=_HEADERS)


@page_router.get(paths.OPERATOR_PAGE_VIEW, include_in_schema=False)
@scopes("admin")
async def show_view(
    state: StateDep,
    view: ViewName,
    account: AccountFilter = None,
    job_state: StateFilter = None,
    kind: KindFilter = None,
    since: SinceFilter = None,
    by: GroupFilter = None,
    limit: RowLimit = None,
) -> Response:
    """Show a view as a table, with a form of its filters."""
    filters = _given(account=account, state=job_state, kind=kind, since=since, by=by, limit=limit)
    given = {name: text for name, text in filters.items() if text}  # forms send empty ones too
    chosen = _view(view)
    try:
        query = _query(state, chosen, given)
        answer = await _answer(state, chosen, given, query)
    except BadInput as error:
        page = operator_page.wrong_filter_page(chosen, given, str(error))
        return HTMLResponse(page, 422, _HEADERS)
    arguments = chosen, given, query, answer
    if len(answer.rows) > _MOST_ROWS_INLINE:
        page = await asyncio.to_thread(operator_page.view_page, *arguments)
    else:
        page = operator_page.view_page(*arguments)
    return HTMLResponse(page, headers=_HEADERS)
