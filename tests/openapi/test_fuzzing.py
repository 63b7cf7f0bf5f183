"""A short run of Schemathesis; `python -m tests.openapi.fuzzing` is the long one."""

from __future__ import annotations

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
