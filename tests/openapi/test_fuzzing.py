"""A short run of Schemathesis; `python -m tests.openapi.fuzzing` is the long one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.openapi.fuzzing import chains, fuzz, serve_fuzz_target
from tests.openapi.operations import OPERATIONS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_every_reply_conforms_to_the_document(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    url = None
    if store == "postgres":
        url = request.getfixturevalue("postgres_server").new_schema()
    with serve_fuzz_target(tmp_path, store=url) as target:
        found = fuzz(target, tmp_path, examples=4, seed=1, phases="examples,fuzzing,stateful")
    assert found.returncode == 0, found.stdout
    assert chains(found.stdout) > 0, found.stdout
    # All but the address of the document itself.
    assert f"Tested: {len(OPERATIONS) - 1}" in found.stdout, found.stdout


def test_a_page_of_another_account_in_an_answer_is_found(tmp_path: Path) -> None:
    with serve_fuzz_target(tmp_path) as target:
        shown = replace(target, secret='"job_id"')  # in the answer to each start
        found = fuzz(
            shown, tmp_path, examples=1, seed=1, phases="examples", operation="startSearch"
        )
    assert found.returncode == 1, found.stdout
    assert "nothing_of_another_account" in found.stdout
