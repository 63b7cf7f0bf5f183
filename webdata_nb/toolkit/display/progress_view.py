"""What is shown of a job's progress: its counts, its rate, its remaining time and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

# The speed of a crawl changes with the part of the site, so older samples are ignored.
WINDOW_S: Final = 30.0
_SAMPLE_INTERVAL_S: Final = 1.0
# An estimate needs this many seconds and units, and a total that changed by at most this share: a
# crawl that still finds pages does not know how many there are.
_ESTIMATE_S: Final = 5.0
_ESTIMATE_UNITS: Final = 5
_TOTAL_CHANGE: Final = 0.1


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """The progress at a time in seconds: completed units, and their total if known."""

    at: float
    completed: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class ProgressRate:
    """Samples of the last 30 s."""

    samples: tuple[ProgressSample, ...] = ()

    def with_sample(self, at: float, completed: int, total: int | None = None) -> ProgressRate:
        """Return the rate with one more sample; at most one per second is kept."""
        recent = [sample for sample in self.samples if at - sample.at <= WINDOW_S]
        # The newest sample before the window marks its beginning.
        older = self.samples[: len(self.samples) - len(recent)][-1:]
        samples = (*older, *recent)
        if len(samples) > 1 and at - samples[-2].at < _SAMPLE_INTERVAL_S:
            samples = samples[:-1]
        return ProgressRate((*samples, ProgressSample(at, completed, total)))

    @property
    def rate(self) -> float | None:
        """Units per second, or None while there are too few samples."""
        if len(self.samples) < 2:  # noqa: PLR2004 - a difference takes two
            return None
        first, last = self.samples[0], self.samples[-1]
        if last.at - first.at < _SAMPLE_INTERVAL_S or last.completed <= first.completed:
            return None
        return (last.completed - first.completed) / (last.at - first.at)

    def remaining(self) -> float | None:
        """Return the seconds until the total at this rate; None while an estimate means nothing."""
        rate, last = self.rate, self.samples[-1] if self.samples else None
        if rate is None or last is None or last.total is None or last.total <= last.completed:
            return None
        return (last.total - last.completed) / rate if self._is_steady(last) else None

    def _is_steady(self, last: ProgressSample) -> bool:
        """Return whether the total has been known and stable for long enough."""
        earlier = [each for each in self.samples if last.at - each.at >= _ESTIMATE_S]
        if not earlier or last.completed - self.samples[0].completed < _ESTIMATE_UNITS:
            return False
        before, total = earlier[-1].total, last.total
        return bool(before and total and abs(total - before) <= _TOTAL_CHANGE * total)


# `left`: the wait has ended and the job continues.
# `lost`: the wait failed, and the state of the job is unknown.
EndState = Literal["done", "failed", "cancelled", "left", "lost"]

# The unit that a job of each kind counts.
UNITS: Final = {"search": "results", "crawl": "pages", "creatives": "creatives"}
_KINDS_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Inputs:
    """The numbers of inputs: in all, ended, and ended with an error."""

    total: int
    ended: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """The state of a call that a painter shows.

    `phase` says what the call does before its job starts, and replaces the counts. `notice` is a
    sentence that is shown once, above the progress. `elapsed` is in seconds, `rate` in units per
    second, and `remaining` is the estimated number of seconds left. `ending` is None while the job
    runs. `failures` counts failed units by kind of error. `estimated_total` replaces an unknown
    `total`. `links_checked` counts links to other sites. `inputs` is set for a call with several
    inputs, and `name` for a job that is shown by its id. `summary` is the receipt line of an ended
    call, without its subject.
    """

    description: str
    total: int | None
    completed: int = 0
    failed: int = 0
    status: str = ""
    elapsed: float = 0.0
    ending: EndState | None = None
    unit: str = "rows"
    failures: Mapping[str, int] = field(default_factory=dict)
    rate: float | None = None
    remaining: float | None = None
    credits: float | None = None
    reserved: float | None = None
    unlimited: bool = False
    cancel_requested: bool = False
    estimated_total: int | None = None
    links_checked: int = 0
    inputs: Inputs | None = None
    name: str = ""
    phase: str = ""
    notice: str = ""
    summary: str = ""

    @property
    def goal(self) -> int | None:
        """The total, or its estimate."""
        return self.estimated_total if self.total is None else self.total

    @property
    def share(self) -> float:
        """The completed share from 0 to 1; 0 without a total."""
        goal = self.goal
        return min(1.0, self.completed / goal) if goal else float(self.ending == "done")


class Painter(Protocol):
    """Draws views. `close` draws the last one, which stays visible.

    Nothing appears in a notebook before the first `paint`: an interrupt while a painter is made
    must not leave an output behind that nobody closes.
    """

    def paint(self, view: View) -> None:
        """Draw `view`."""

    def poll_clicks(self) -> None:
        """Handle clicks; called at each tick, even if there is nothing to draw."""

    def close(self, view: View) -> None:
        """Draw the last view and release the output."""


def counts(view: View) -> str:
    """Return the counts, such as `12/25 rows, 1 failed (timeout)`; before them, the phase."""
    if view.phase:
        return view.phase
    failed = f", {view.failed} failed{_by_kind(view.failures)}" if view.failed else ""
    links = f", {view.links_checked} links checked" if view.links_checked else ""
    return f"{_of_inputs(view.inputs)}{view.completed}{_of(view)} {view.unit}{failed}{links}"


def _of(view: View) -> str:
    if view.total is not None:
        # A crawl that has not read its start page knows of no page.
        return f"/{view.total}" if view.total or view.ending else ""
    return (
        ""
        if view.estimated_total is None or view.ending is not None
        else f" of about {view.estimated_total}"
    )


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
    """Return rate and cost, such as `3.1 rows/s, 12 s left, 4 credits`."""
    words = []
    if view.rate is not None:
        words.append(f"{view.rate:.1f} {view.unit}/s")
    if view.remaining is not None and view.ending is None:
        words.append(f"{duration(view.remaining)} left")
    return ", ".join([*words, *_credits(view)])


def _credits(view: View) -> list[str]:
    """Return the used and reserved credits that the service reports."""
    if view.unlimited:
        return []
    if view.ending is None and view.reserved is not None:
        used = "" if view.credits is None else f"{view.credits:g} of "
        return [f"{used}{view.reserved:g} credits{'' if view.credits is not None else ' held'}"]
    if view.credits is None:
        return []
    return [f"{view.credits:g} credit{'' if view.credits == 1 else 's'}"]


def duration(seconds: float) -> str:
    """Return a duration such as `8 s`, `1 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    minutes, left = divmod(whole, 60)
    if minutes == 0:
        return f"{whole} s"
    hours, minutes = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes} min {left} s" if left else f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def status_line(view: View) -> str:
    """Return everything except the description on one line."""
    if view.ending is not None and view.summary:
        return view.summary
    parts = [_state(view), counts(view), pace(view), duration(view.elapsed), _end_in_words(view)]
    return ", ".join(part for part in parts if part)


def _state(view: View) -> str:
    """Return the state of a running job that is shown by its id."""
    return view.status if view.name and view.ending is None else ""


def _end_in_words(view: View) -> str:
    if view.ending is None:
        return "cancelling" if view.cancel_requested else ""
    words = {"done": "", "left": "the job goes on", "lost": "the service could not be asked"}
    return words.get(view.ending, view.ending)
