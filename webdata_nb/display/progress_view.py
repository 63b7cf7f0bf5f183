"""What a painter is given, and what it must be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

# `left`: the wait is over and the job goes on.
# `lost`: it is the wait that failed, and how the job is nobody knows.
Ending = Literal["done", "failed", "cancelled", "left", "lost"]

# What a job of each kind counts.
UNITS: Final = {"search": "results", "crawl": "pages", "creatives": "creatives"}
_KINDS_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Inputs:
    """How many of several inputs have ended, and how many of these without an answer."""

    total: int
    ended: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """What a painter shows. `elapsed` is seconds; `ending` is None while the job runs.

    `unit` says what is counted, `failures` counts the failed ones by kind of error; `rate` is
    units per second and `remaining` the seconds that it leaves to do, where they can be told.
    `cancelling`: the user asked for the end, which has not come yet. `likely` stands in for a
    total that can only be estimated. `inputs` is there where several are told as one, `name`
    where the view stands for a job that is known by its id.
    """

    description: str
    total: int | None
    completed: int = 0
    failed: int = 0
    status: str = ""
    elapsed: float = 0.0
    ending: Ending | None = None
    unit: str = "rows"
    failures: Mapping[str, int] = field(default_factory=dict)
    rate: float | None = None
    remaining: float | None = None
    credits: float | None = None
    reserved: float | None = None
    unlimited: bool = False
    cancelling: bool = False
    likely: int | None = None
    inputs: Inputs | None = None
    name: str = ""

    @property
    def goal(self) -> int | None:
        """The total, or what is likely to be one."""
        return self.likely if self.total is None else self.total

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1, as far as can be told."""
        goal = self.goal
        return min(1.0, self.completed / goal) if goal else float(self.ending == "done")


class Painter(Protocol):
    """Draws views; `close` draws the last one and leaves it standing.

    Nothing appears in a notebook before the first `paint`: an interrupt while a painter is made
    must not leave an output behind that nobody closes.
    """

    def paint(self, view: View) -> None:
        """Draw `view`."""

    def attend(self) -> None:
        """Look what the user did; called at each tick, also where there is nothing to draw."""

    def close(self, view: View) -> None:
        """Draw the last view and let go of the output."""


def counts(view: View) -> str:
    """Return the state in words, such as `12/25 rows, 1 failed (timeout)`."""
    failed = f", {view.failed} failed{_by_kind(view.failures)}" if view.failed else ""
    return f"{_of_inputs(view.inputs)}{view.completed}{_of(view)} {view.unit}{failed}"


def _of(view: View) -> str:
    if view.total is not None:
        return f"/{view.total}"
    return "" if view.likely is None or view.ending is not None else f" of about {view.likely}"


def _of_inputs(inputs: Inputs | None) -> str:
    if inputs is None:
        return ""
    failed = f" ({inputs.failed} failed)" if inputs.failed else ""
    return f"{inputs.ended}/{inputs.total} inputs{failed}, "


def _by_kind(failures: Mapping[str, int]) -> str:
    """Return the most frequent kinds of error, with their counts where there are several."""
    if not failures:
        return ""
    ranked = sorted(failures.items(), key=lambda each: (-each[1], each[0]))
    if len(ranked) == 1:
        return f" ({ranked[0][0]})"
    words = [f"{kind} {count}" for kind, count in ranked[:_KINDS_NAMED]]
    return f" ({', '.join([*words, '…'] if len(ranked) > _KINDS_NAMED else words)})"


def pace(view: View) -> str:
    """Return how fast it goes and what it costs, such as `3.1 rows/s, 12 s left, 4 credits`."""
    words = []
    if view.rate is not None:
        words.append(f"{view.rate:.1f} {view.unit}/s")
    if view.remaining is not None and view.ending is None:
        words.append(f"{duration(view.remaining)} left")
    return ", ".join([*words, *_credits(view)])


def _credits(view: View) -> list[str]:
    """Return what it costs and what is held for it, as far as the service tells."""
    if view.unlimited:
        return ["unlimited credits"] if view.ending is None else []
    if view.ending is None and view.reserved is not None:
        used = "" if view.credits is None else f"{view.credits:g} of "
        return [f"{used}{view.reserved:g} credits{'' if view.credits is not None else ' held'}"]
    if view.credits is None:
        return []
    return [f"{view.credits:g} credit{'' if view.credits == 1 else 's'}"]


def duration(seconds: float) -> str:
    """Return a time as people say it: `8 s`, `1 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    minutes, left = divmod(whole, 60)
    if minutes == 0:
        return f"{whole} s"
    hours, minutes = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes} min {left} s" if left else f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def sentence(view: View) -> str:
    """Return everything but the description in one line."""
    parts = [_state(view), counts(view), pace(view), duration(view.elapsed), _end_in_words(view)]
    return ", ".join(part for part in parts if part)


def _state(view: View) -> str:
    """Return the state of a job that is looked at by its id, while it has not ended."""
    return view.status if view.name and view.ending is None else ""


def _end_in_words(view: View) -> str:
    if view.ending is None:
        return "cancelling" if view.cancelling else ""
    words = {"done": "", "left": "the job goes on", "lost": "the service could not be asked"}
    return words.get(view.ending, view.ending)
