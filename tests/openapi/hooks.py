"""What Schemathesis must know of this service: texts that a schema names but cannot make."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

import jsonschema
import schemathesis
from hypothesis import strategies as st

from tests.openapi.operations import OPERATIONS, whole_schema

# Never resolved (RFC 2606): no test asks a site that it did not start.
NOWHERE = "example.invalid"
# A site that the test did start, so that crawls have rows, and exports something to export.
SITE = os.environ["FUZZED_SITE"]
SECRET = os.environ["FUZZED_SECRET"]
OTHERS_JOBS = json.loads(os.environ["FUZZED_OTHERS_JOBS"])
# The document says "uri", and "%u_" is none; the service takes it all the same, as browsers do.
_SEGMENT = st.lists(
    st.sampled_from([*"abcxyz0189-._~!$&'()*+,;=:@/", "%C3%A9", "%2F", "%00", "%25"]), max_size=20
).map("".join)
_NOWHERES = st.builds(
    lambda scheme, port, path, query: f"{scheme}://{NOWHERE}{port}/{path}{query}",
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(["", ":80", ":443", ":8080", ":22", ":99999", ":"]),
    _SEGMENT,
    st.sampled_from(["", "?a=1", "?a=1&b=%00", "#top"]),
)
_URLS = st.sampled_from([SITE, f"{SITE}docs/"]) | _NOWHERES
_SELECTORS = st.sampled_from(
    [".ready", "article", "main > p", "[data-x='1']", "#a.b", "p:nth(", "["]
)

schemathesis.openapi.format("uri", _URLS)
schemathesis.openapi.format("css-selector", _SELECTORS)


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: dict[str, Any]) -> None:
    """Send the document's examples to no site of others; ask for jobs of the other account."""
    if isinstance(case.body, dict):
        case.body = _ours(case.body)
    meta = case.meta
    if meta is None or meta.phase.name != "fuzzing" or meta.pool_draws:
        return
    if "job_id" in case.path_parameters and not _is_operator(case):
        case.path_parameters["job_id"] = _others_or(case.path_parameters["job_id"])
    if meta.generation.mode == schemathesis.GenerationMode.POSITIVE:
        case.body = _with_others_jobs(case.body)


def _others_or(job_id: Any) -> Any:
    """Return the id of a job of the other account instead of every second one."""
    number = zlib.crc32(str(job_id).encode())
    return OTHERS_JOBS[number // 2 % len(OTHERS_JOBS)] if number % 2 else job_id


def _with_others_jobs(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _others_or(each) if name == "job_id" else _with_others_jobs(each)
            for name, each in value.items()
        }
    return [_with_others_jobs(each) for each in value] if isinstance(value, list) else value


def _is_operator(case: Any) -> bool:
    """Return whether an operation shows all accounts to a key with the scope ``admin``."""
    return str(case.operation.path).startswith("/v1/operator/")


@schemathesis.check
def nothing_of_another_account(_context: Any, response: Any, case: Any) -> None:
    """No answer shows a page or a job of the other account."""
    if _is_operator(case):
        return
    assert SECRET.encode() not in response.content, "shows a page of another account"
    asked = (case.path_parameters or {}).get("job_id")
    assert asked not in OTHERS_JOBS or response.status_code >= 400, "answers for another's job"


def _ours(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ours(each) for name, each in value.items()}
    if isinstance(value, str):
        at_home = value.replace("https://example.com/", SITE)
        return at_home.replace("hooks.example.com", NOWHERE).replace("example.com", NOWHERE)
    return value


@schemathesis.hook
def filter_case(_context: Any, case: Any) -> bool:
    """Leave out wrong bodies that are right: a branch of `anyOf` broken into its null branch."""
    wrong = [
        location.value
        for location, info in case.meta.components.items()
        if info.mode == schemathesis.GenerationMode.NEGATIVE
    ]
    return wrong != ["body"] or not isinstance(case.body, dict) or not _allowed(case)


def _allowed(case: Any) -> bool:
    """Return whether the document allows a body, asking another judge."""
    body = next(each.body for each in OPERATIONS if each.path == case.operation.path and each.body)
    return jsonschema.Draft202012Validator(whole_schema(body["schema"])).is_valid(case.body)
