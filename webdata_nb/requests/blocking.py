"""The blocking twins of the table functions."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeVar

from webdata_nb.bridge import synced

P = ParamSpec("P")
T = TypeVar("T")

# Where a call that an interrupt ends leaves its partial result for the thread that waited.
_SALVAGED: Final[ContextVar[list[Any] | None]] = ContextVar("webdata_salvaged", default=None)


def blocking(afunction: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the blocking twin: as `synced`, but an interrupt gives what `salvage` was told.

    The bridge raises an interrupt again once the task has ended; with `on_cancel="partial"` the
    task has ended with rows, and these are the answer.
    """
    plain = synced(afunction)

    @functools.wraps(plain)
    def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        salvaged: list[T] = []
        token = _SALVAGED.set(salvaged)
        try:
            return plain(*args, **kwargs)
        except (KeyboardInterrupt, asyncio.CancelledError) as interrupt:
            if salvaged:
                return salvaged[0]
            raise _in_one_line(interrupt) from None
        finally:
            _SALVAGED.reset(token)

    del twin.__wrapped__  # else inspect would look behind the twin
    return twin


def _in_one_line(interrupt: BaseException) -> BaseException:
    """Spare a notebook the traceback of an interrupt: nothing is broken.

    IPython has a hook for it; elsewhere what lies below the call is cut off.
    """
    line = f"{type(interrupt).__name__}: interrupted"
    interrupt._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
    return interrupt.with_traceback(None)


def salvage(result: object) -> None:
    """Leave `result` for the waiting thread, in case an interrupt is what ends its call."""
    salvaged = _SALVAGED.get()
    if salvaged is not None:
        salvaged.append(result)
