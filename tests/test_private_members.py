"""Members of libraries that the package overrides or reads although they are not documented.

`pyproject.toml` has upper bounds for uvicorn and psycopg. Raise a bound when these tests pass with
the new release. Playwright has none: without the member, a driver that hangs ends with the service.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import Generator
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tests.test_dependencies import declared

WHERE_UVICORN = "service/http/connections.py relies on it"
WHERE_PLAYWRIGHT = "end_driver in service/browser/chromium.py relies on it"
WHERE_PSYCOPG = "DeadlineConnection in service/store/postgres/pool.py relies on it"


@pytest.mark.parametrize("name", ["psycopg", "uvicorn"])
def test_libraries_with_overridden_members_have_an_upper_bound(name: str) -> None:
    assert [each for each in declared()[name].specifier if each.operator == "<"]


def test_uvicorn_answers_invalid_requests_by_the_overridden_method() -> None:
    method = getattr(HttpToolsProtocol, "send_400_response", None)
    assert method is not None, f"uvicorn has no send_400_response any more; {WHERE_UVICORN}"
    assert list(inspect.signature(method).parameters) == ["self", "msg"], WHERE_UVICORN
    calls = inspect.getsource(HttpToolsProtocol.data_received)
    assert "self.send_400_response(" in calls, WHERE_UVICORN


@pytest.mark.parametrize("member", ["body", "more_body", "receive", "response_complete"])
def test_uvicorn_keeps_the_state_of_a_request_in_its_cycle(member: str) -> None:
    source = inspect.getsource(RequestResponseCycle.__init__)
    assert hasattr(RequestResponseCycle, member) or f"self.{member} = " in source, WHERE_UVICORN


def test_uvicorn_keeps_the_cycle_in_its_protocol() -> None:
    assert "self.cycle:" in inspect.getsource(HttpToolsProtocol.__init__), WHERE_UVICORN


def test_psycopg_waits_by_the_overridden_method() -> None:
    psycopg = pytest.importorskip("psycopg")
    wait = getattr(psycopg.Connection, "wait", None)
    assert wait is not None, f"psycopg's Connection has no wait any more; {WHERE_PSYCOPG}"
    assert list(inspect.signature(wait).parameters)[:2] == ["self", "gen"], WHERE_PSYCOPG
    assert "timeout" in inspect.signature(wait).parameters, WHERE_PSYCOPG
    assert ".wait(" in inspect.getsource(psycopg.Cursor.execute), WHERE_PSYCOPG


def test_psycopg_resumes_a_conversation_whose_server_does_not_answer() -> None:
    pytest.importorskip("psycopg")
    from psycopg import waiting  # noqa: PLC0415 - an extra

    def conversation() -> Generator[Any, Any, Any]:
        return (yield waiting.Wait.R)

    near, far = socket.socketpair()
    with near, far:
        assert not waiting.wait(conversation(), near.fileno(), interval=0.01), WHERE_PSYCOPG


async def test_playwright_keeps_the_process_of_its_driver() -> None:
    module = pytest.importorskip("playwright.async_api")
    playwright = await module.async_playwright().start()
    try:
        client = getattr(getattr(playwright.stop, "__self__", None), "_client", None)
        process = getattr(getattr(client, "_transport", None), "_proc", None)
        assert isinstance(process, asyncio.subprocess.Process), WHERE_PLAYWRIGHT
    finally:
        await playwright.stop()
