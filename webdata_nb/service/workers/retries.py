"""How often a page is read again after its worker died: a decision on exit codes."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

CRASHES: Final = 3
"""Workers that may crash over one page before the page is blamed."""
KILLS: Final = 10
"""Workers that may be killed, or stop answering, while they hold one page."""
RESTARTS: Final = 100
"""Workers that may end while the page waits behind another, before it is given up."""
_OUTSIDE: Final = frozenset(
    -number
    for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGSTOP", "SIGTSTP")
    if (number := getattr(signal, name, None)) is not None
)


@dataclass(slots=True)
class PageTries:
    """What happened to the workers that one page was given to.

    A worker that ends by a signal that others send (SIGKILL, SIGTERM) says little about its page:
    an administrator, the kernel or a stopped machine may have ended it. A crash (SIGSEGV, an exit
    code) says more. No other page is at work in a worker at the same time, so a page that meets
    either this often is the cause.
    """

    crashes: int = 0
    kills: int = 0
    restarts: int = 0

    def died(self, code: int) -> bool:
        """Note that the worker ended over this page; tell whether to read the page again."""
        if code in _OUTSIDE:
            self.kills += 1
        else:
            self.crashes += 1
        return self.crashes < CRASHES and self.kills < KILLS

    def not_begun(self) -> bool:
        """Note that the worker ended before it came to this page; tell whether to go on."""
        self.restarts += 1
        return self.restarts < RESTARTS

    @property
    def deaths(self) -> int:
        """Workers that ended over this page."""
        return self.crashes + self.kills
