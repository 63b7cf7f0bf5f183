"""What was given in lists becomes inputs: every combination, in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.errors import InvalidArgument
from webdata_nb.frames.stacked import Label
from webdata_nb.requests import arguments
from webdata_nb.requests.job_spec import JobSpec

MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Input:
    """One combination of what was given in lists: its labels, which become columns."""

    labels: Mapping[str, Label]
    spec: JobSpec


def combined(
    make: Callable[..., JobSpec], given: Mapping[str, Any], multiplying: Mapping[str, str]
) -> list[Input] | None:
    """Return each combination of the lists among `given`, in order; None where there is none.

    Raises
    ------
    InvalidArgument
        A list that is empty, or an input that the contract does not allow; nothing was sent.
    """
    lists = {name: arguments.listed(name, given.get(name)) for name in multiplying}
    several = {name: values for name, values in lists.items() if values is not None}
    if not several:
        return None
    first = next(iter(multiplying))
    axes = {first: several.get(first, [given.get(first)]), **several}
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MOST:
        raise InvalidArgument(f"the lists make {count} inputs: {MOST} at most in one call")
    return [
        Input(
            {multiplying[name]: _label(value) for name, value in zip(axes, chosen, strict=True)},
            make(**{**given, **dict(zip(axes, chosen, strict=True))}),
        )
        for chosen in itertools.product(*axes.values())
    ]


def _label(value: object) -> Label:
    return None if value is None else arguments.unlocked(str(value))
