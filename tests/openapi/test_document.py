"""The document says what the service does: every route, every model, examples that hold."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from tests.openapi.operations import DOCUMENT, OPERATIONS, Operation, validate
from tests.service.conftest import Api, open_service
from tests.service.routes.teams import member
from tests.shell import Shell
from webdata_nb.contract import events, paths
from webdata_nb.contract.events import Profile
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.routes.application import STATUS

# The local service's control calls are between it and the toolkit, and no part of the contract.
NOW = datetime(2026, 1, 2, tzinfo=UTC)
JOB = events.WebhookJob("j", "crawl", JobStatus.COMPLETED, "https://a.example/", 3, 2)
OURS_ALONE = re.compile(r"^(/local/|/docs$|/operator(/|$)|/\.well-known/)")


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Api]:
    alice = await member(tmp_path, "alice")
    async with open_service(tmp_path, "team") as api:
        api.http.headers.update(alice)
        yield api


def router_operations(api: Api) -> set[tuple[str, str]]:
    """Return what the application's router knows, by path and method."""
    return {
        (route.path, method.lower())
        for route in api.running.routes
        if isinstance(route, Route) and route.include_in_schema
        for method in (route.methods or ())
        if method != "HEAD"
    }


@pytest.mark.parametrize("mode", ["local", "team"])
async def test_every_route_is_described_and_every_operation_exists(
    tmp_path: Path, mode: Any
) -> None:
    async with open_service(tmp_path, mode) as api:
        found = {each for each in router_operations(api) if not OURS_ALONE.match(each[0])}
    assert found == {(each.path, each.method) for each in OPERATIONS}


def test_every_path_of_the_contract_is_described() -> None:
    named = {value for name, value in vars(paths).items() if name.isupper() and "/" in str(value)}
    assert {path for path in named if not OURS_ALONE.match(path)} == set(DOCUMENT["paths"])


async def test_the_service_shows_the_document(team: Api) -> None:
    assert await team.get(paths.OPENAPI) == json.loads(json.dumps(DOCUMENT))


def test_the_command_prints_the_document(tmp_path: Path) -> None:
    output = Shell(tmp_path).run("openapi")
    assert (output.returncode, json.loads(output.stdout)) == (0, json.loads(json.dumps(DOCUMENT)))


def test_every_reference_resolves() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert named == named & set(schemas)
    assert len({each.id for each in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if each.examples], ids=lambda each: each.id
)
def test_examples_are_valid(operation: Operation) -> None:
    assert operation.body is not None
    for example in operation.examples:
        validate(example, operation.body["schema"])


def test_every_operation_that_takes_a_body_has_an_example() -> None:
    assert [each.id for each in OPERATIONS if each.body is not None and not each.examples] == []


def test_no_field_of_a_request_has_a_default() -> None:
    """A generator such as openapi-typescript takes a field with a default for a required one."""
    schemas = DOCUMENT["components"]["schemas"]
    pending = [json.dumps(each.body["schema"]) for each in OPERATIONS if each.body is not None]
    seen: set[str] = set()
    while pending:
        text = pending.pop()
        assert '"default":' not in text, text
        names = set(re.findall(r'"#/components/schemas/(\w+)"', text)) - seen
        seen |= names
        pending += [json.dumps(schemas[name]) for name in names]
    assert {"CrawlRequest", "ScrapeOptions", "Extract", "VerifyRequest"} <= seen
    assert schemas["CrawlRequest"]["properties"]["max_pages"]["description"].endswith(
        "Default: `100`."
    )


def test_every_status_of_the_table_of_errors_is_described() -> None:
    described = {status for each in OPERATIONS for status in each.statuses}
    assert set(STATUS.values()) <= described


def test_every_operation_but_the_open_ones_needs_the_bearer() -> None:
    assert DOCUMENT["security"] == [{"bearer": []}]
    free = {
        path
        for path, item in DOCUMENT["paths"].items()
        for each in item.values()
        if each.get("security") == []
    }
    assert free == {paths.HEALTH, paths.READY, paths.OPENAPI}


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("GET", "/v1/search/", {}, 404),
        ("DELETE", paths.JOBS, {}, 405),
        ("TRACE", paths.USAGE, {}, 405),
        ("POST", paths.SEARCH, {"content": b"{}", "headers": {"Content-Type": "text/xml"}}, 415),
        ("POST", paths.SEARCH, {"content": b"[" * (1 << 20) + b"]"}, 413),
        ("POST", paths.SEARCH, {"content": b'{"query":"a","query":"b"}'}, 422),
        ("POST", paths.SEARCH, {"content": b'{"query":NaN}'}, 422),
        ("POST", paths.SEARCH, {"content": b"[" * 5000 + b"]" * 5000}, 422),
        ("POST", paths.SEARCH, {"content": b'{"query":"\\ud800"}'}, 422),
        ("POST", paths.SEARCH, {"content": b'{"query":"a\\u0000"}'}, 422),
        ("POST", paths.SEARCH, {"content": b'{"query":"q","num_results":1e400}'}, 422),
        ("POST", paths.SEARCH, {"content": b"\xff\xfe{\x00}\x00"}, 422),
        ("GET", paths.JOBS + "?limit=" + "9" * 5000, {}, 422),
        ("GET", paths.JOBS + "?limit=%00", {}, 422),
        ("GET", paths.JOBS + "?cursor=W251bGwsMV0%3D", {}, 422),
        ("GET", "/v1/search/%00", {}, 404),
        ("GET", "/v1/search/%ED%A0%80", {}, 404),
        ("GET", "/v1/crawl/" + "x" * 4000, {}, 404),
    ],
)
async def test_every_error_reply_has_the_documented_shape(
    team: Api, method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    headers = {"Content-Type": "application/json"} | sent.get("headers", {})
    answer = await team.http.request(method, path, content=sent.get("content"), headers=headers)
    assert answer.status_code == status, answer.text
    name = "ValidationErrorReply" if status == 422 else "Refusal"
    validate(answer.json(), DOCUMENT["components"]["schemas"][name])
    assert set(answer.json()) == {"detail"}


async def test_internal_error_has_the_documented_shape(
    team: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr("webdata_nb.service.routes.jobs.read_list_cursor", broken)
    transport = httpx.ASGITransport(team.running.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=team.http.base_url) as client:
        answer = await client.get(paths.JOBS, headers=team.http.headers)
    assert (answer.status_code, list(answer.json())) == (500, ["detail"])
    assert "secret" not in answer.text


def properties(schema: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Yield each property that a schema describes, however deep, with the path to it."""
    if isinstance(schema, dict):
        named = schema.get("properties")
        if isinstance(named, dict):
            for name, each in named.items():
                yield f"{at}.{name}", each
        for key, each in schema.items():
            if key not in {"examples", "example", "default", "enum", "const"}:
                yield from properties(each, f"{at}.{key}")
    elif isinstance(schema, list):
        for each in schema:
            yield from properties(each, at)


def test_every_property_of_every_schema_has_a_description() -> None:
    found = dict(properties(DOCUMENT, ""))
    assert len(found) >= 268
    assert [at for at, each in found.items() if not each.get("description")] == []


def test_durations_and_sizes_have_units() -> None:
    units = {
        "_ms": "illiseconds",
        "_s": "econds",
        "_hours": "ours",
        "time_taken": "econds",
        "elapsed": "econds",
        "timeout": "illiseconds",
        "bytes": "bytes",
        "width": "pixels",
        "height": "pixels",
        "_at": "(UTC)",
    }
    for at, each in properties(DOCUMENT, ""):
        name = at.rpartition(".")[2]
        for end, unit in units.items():
            if name == end.removeprefix("_") or (end.startswith("_") and name.endswith(end)):
                assert unit in each["description"], at


def test_every_operation_and_parameter_is_described() -> None:
    tags = {each["name"] for each in DOCUMENT["tags"] if each["description"]}
    for each in OPERATIONS:
        output = each.described
        assert output["summary"], each.id
        assert len(output["description"]) > len("a sentence"), each.id
        assert output["tags"], each.id
        assert set(output["tags"]) <= tags, each.id
        assert all(one["description"] for one in output.get("parameters", ())), each.id
        assert all(one["description"] for one in output["responses"].values()), each.id


def test_the_webhooks_are_those_that_are_sent() -> None:
    assert set(DOCUMENT["webhooks"]) == {"jobEnded", "pageDone"}
    sent = {
        "jobEnded": [events.job_ended(profile, JOB, NOW) for profile in Profile],
        "pageDone": [events.page_done(JOB, NOW, url="https://a.example/", success=True)],
    }
    for name, example in sent.items():
        schema = DOCUMENT["webhooks"][name]["post"]["requestBody"]["content"]["application/json"]
        for notice in example:
            validate(json.loads(notice.body), schema["schema"])


async def test_the_document_needs_no_key(team: Api) -> None:
    no_credentials = {"Authorization": ""}
    assert await team.get(paths.OPENAPI, headers=no_credentials) == json.loads(json.dumps(DOCUMENT))


@pytest.mark.parametrize("path", [paths.HEALTH, paths.OPENAPI, paths.JOBS])
async def test_head_is_answered_like_get(team: Api, path: str) -> None:
    assert (await team.http.head(path)).status_code == 200


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (paths.JOBS + "?limit=2&Limit=3", "Limit"),
        (paths.USAGE + "?verbose=1", "verbose"),
        ("/v1/crawl/x?include_dat=false", "include_dat"),
        ("/v1/search/x/events?page=1", "page"),
    ],
)
async def test_an_unknown_query_parameter_is_refused(team: Api, path: str, name: str) -> None:
    [problem] = (await team.get(path, 422))["detail"]
    assert problem["loc"] == ["query", name]
    assert "allowed" in problem["msg"]
