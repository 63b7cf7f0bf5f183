"""A short run over all parsers; `python -m tests.fuzzing --minutes 60` is the long one."""

from __future__ import annotations

import random
from typing import Final

import pytest

from tests.fuzzing.inputs import check, mutate
from tests.fuzzing.parsers import PARSERS, Parser

_INPUTS: Final = 60
NAMES: Final[dict[str, str]] = {}


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_changed_inputs_raise_declared_errors_only(parser: Parser) -> None:
    rng = random.Random(parser.name)
    seeds = list(parser.seeds())
    for data in [*seeds, *(mutate(rng.choice(seeds), rng, parser) for _ in range(_INPUTS))]:
        found = check(parser, data)
        assert found is None, f"{found.kind}: {data!r}\n{found.details}"


def _fails(data: bytes) -> object:
    if data.startswith(b"key"):
        return NAMES["missing"]
    if data.startswith(b"random"):
        return random.random()
    return "x" * len(data) * 100


@pytest.mark.parametrize(
    ("data", "kind"), [(b"key", "KeyError in"), (b"long" * 10, "large")], ids=["error", "size"]
)
def test_a_finding_is_told_by_its_kind(data: bytes, kind: str) -> None:
    found = check(Parser("broken", _fails, lambda: [b""], output_bytes=1000), data)
    assert found is not None
    assert found.kind.startswith(kind)


def test_a_result_that_differs_is_a_finding() -> None:
    parser = Parser("broken", _fails, lambda: [b""])
    kinds = {found.kind for n in range(50) if (found := check(parser, b"random%d" % n)) is not None}
    assert kinds == {"not deterministic"}
