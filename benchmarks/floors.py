"""The floors of the benchmarks, from `floors.toml`: a figure is checked against one by its name.

All figures are ratios of two measurements of one run. On a busy machine a ratio varies, so that
`python -m benchmarks.performance` sets `SHARE_VARIABLE`: the share of a floor that passes.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

SHARE_VARIABLE: Final = "WEBDATA_FLOOR_SHARE"


class Floor(NamedTuple):
    """The limit of a figure: a floor, or a ceiling if `is_ceiling`."""

    value: float
    is_ceiling: bool

    def __str__(self) -> str:
        return f"at {'most' if self.is_ceiling else 'least'} {self.value:g}"

    def is_met(self, figure: float, share: float = 1.0) -> bool:
        """Return whether a figure reaches at least `share` of the floor."""
        if self.is_ceiling:
            return figure <= self.value / share
        return figure >= self.value * share


def read_floors() -> Mapping[str, Floor]:
    """Return the floors by the name of the figure."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {
        f"{program}: {figure}": Floor(float(value), is_ceiling=direction == "at_most")
        for program, floors in table.items()
        for direction, figures in floors.items()
        for figure, value in figures.items()
    }


def check(name: str, figure: float) -> bool:
    """Print a figure with its floor; return whether it is met."""
    floor = read_floors()[name]
    met = floor.is_met(figure, float(os.environ.get(SHARE_VARIABLE, "1")))
    print(f"{name}: {figure:.2f} ({floor}){'' if met else ', MISSED'}", flush=True)
    return met
