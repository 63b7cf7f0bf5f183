"""The floors of the benchmarks, and what CI checks of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import floors, performance
from benchmarks.floors import Floor, check, read_floors


@pytest.mark.parametrize(
    ("floor", "figure", "share", "is_met"),
    [
        (Floor(2.0, is_ceiling=False), 2.0, 1.0, True),
        (Floor(2.0, is_ceiling=False), 1.9, 1.0, False),
        (Floor(2.0, is_ceiling=False), 1.6, 0.8, True),
        (Floor(2.0, is_ceiling=False), 1.59, 0.8, False),
        (Floor(1.2, is_ceiling=True), 1.2, 1.0, True),
        (Floor(1.2, is_ceiling=True), 1.21, 1.0, False),
        (Floor(1.2, is_ceiling=True), 1.49, 0.8, True),
        (Floor(1.2, is_ceiling=True), 1.51, 0.8, False),
    ],
)
def test_a_floor_is_met_by_its_share(
    floor: Floor, figure: float, share: float, is_met: bool
) -> None:
    assert floor.is_met(figure, share) is is_met


def test_a_missed_floor_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floors, "read_floors", lambda: {"a: b": Floor(2.0, is_ceiling=False)})
    assert check("a: b", 2.1)
    assert not check("a: b", 1.9)
    monkeypatch.setenv(floors.SHARE_VARIABLE, "0.8")
    assert check("a: b", 1.9)
    assert capsys.readouterr().out.splitlines() == [
        "a: b: 2.10 (at least 2)",
        "a: b: 1.90 (at least 2), MISSED",
        "a: b: 1.90 (at least 2)",
    ]


def test_floors_and_programs_of_ci_exist() -> None:
    programs = {path.stem for path in Path(floors.__file__).parent.glob("*.py")}
    assert {name.partition(": ")[0] for name in read_floors()} <= programs
    assert performance.PROGRAMS.keys() <= programs
