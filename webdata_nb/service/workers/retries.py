"""Decides whether a page is parsed again after its worker process ended, from the exit code."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

CRASHES: Final = 3
"""Crashes of workers with the same page after which the page fails."""
KILLS: Final = 10
"""Killed or unresponsive workers with the same page after which the page fails."""
RESTARTS: Final = 100
"""Ended workers after which a page that none of them had begun fails."""
_EXTERNAL_SIGNALS: Final = frozenset(
    -number
    for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGSTOP", "SIGTSTP")
    if (number := getattr(signal, name, None)) is not None
)


@dataclass(slots=True)
class WorkerFailures:
    """Counts the workers that ended while they held one page.

    A signal from outside (SIGKILL, SIGTERM) says little about the page: an administrator, the
    kernel or a stopped machine may have sent it. A crash (SIGSEGV, an exit code) says more. A
    worker parses one page at a time, so a page with this many failures is their cause.
    """

    crashes: int = 0
    kills: int = 0
    restarts: int = 0

    def add_exit(self, code: int) -> bool:
        """Count a worker that ended while it parsed the page; return whether to try again."""
        if code in _EXTERNAL_SIGNALS:
            self.kills += 1
        else:
            self.crashes += 1
        return self.crashes < CRASHES and self.kills < KILLS

    def add_restart(self) -> bool:
        """Count a worker that ended before it began the page; return whether to try again."""
        self.restarts += 1
        return self.restarts < RESTARTS

    @property
    def exits(self) -> int:
        """Number of workers that ended while they parsed the page."""
        return self.crashes + self.kills
