"""Processes that are killed in the steps of a move: no page is lost, no file is left."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from tests.stores.conftest import STORES
from tests.stores.move_kills import run_move_kills

KILLS: Final = 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORES)
async def test_kills_lose_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In some of the steps: `benchmarks.bodies` does all of them."""
    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    seed = random.randrange(1_000_000)
    print("seed", seed)  # noqa: T201 - shown if the test fails
    assert await run_move_kills(tmp_path, server, rounds=1, seed=seed, steps=KILLS) == KILLS
