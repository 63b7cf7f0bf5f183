"""What a painter is given, and what it must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Ending = Literal["done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class View:
    """What a painter shows. `elapsed` is seconds; `ending` is None while the job runs.

    `unit` says what is counted.
    """

    description: str
    total: int | None
    completed: int = 0
    failed: int = 0
    status: str = ""
    elapsed: float = 0.0
    ending: Ending | None = None
    unit: str = "rows"


class Painter(Protocol):
    """Draws views; `close` draws the last one and leaves it standing."""

    def paint(self, view: View) -> None:
        """Draw `view`."""

    def close(self, view: View) -> None:
        """Draw the last view and let go of the output."""
