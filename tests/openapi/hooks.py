"""What Schemathesis must know of this service: texts that a schema names but cannot make."""

from __future__ import annotations

import os
from typing import Any

import jsonschema
import schemathesis
from hypothesis import strategies as st

from tests.openapi.operations import OPERATIONS, whole_schema

# Never resolved (RFC 2606): no test asks a site that it did not start.
NOWHERE = "example.invalid"
# A site that the test did start, so that crawls have rows, and exports something to export.
SITE = os.environ["FUZZED_SITE"]
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
    """Send the document's examples to no site of others either."""
    if isinstance(case.body, dict):
        case.body = _ours(case.body)


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
