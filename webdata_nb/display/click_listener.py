"""Hears a widget's button while the kernel's main thread is busy in a cell.

A kernel runs one shell message after the other, so the click of a button waits behind the cell
that it is meant to end. The tap reads each message where it enters the kernel and hands it on
untouched, in its order: it looks for clicks and dispatches nothing. It uses names of ipykernel
that are no promised interface. Whatever is not as it was in the versions that
`benchmarks.kernel_matrix` drives, the tap leaves the kernel alone: the Stop button still works.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

Action = Callable[[], object]
Frames = Any

log = logging.getLogger("webdata_nb")

# The thread that reads only passes messages on, so it is never busy for long.
_PLACING_S: Final = 1.0
_TAPS: Final[dict[Any, Tap]] = {}  # by kernel, of which a process has one


class Tap:
    """The tap of one kernel; it is in place only while a button wants to be heard."""

    def __init__(self, kernel: Any) -> None:
        self._session = kernel.session
        self._stream = kernel.shell_stream
        self._actions: dict[str, Action] = {}
        self._lock = threading.Lock()
        # From ipykernel 7 on, a thread of its own reads the shell socket; before, the main
        # thread does, in between cells.
        self._thread = getattr(kernel, "shell_channel_thread", None)
        self._forward: Callable[[Frames], object] = (
            functools.partial(kernel.schedule_dispatch, kernel.dispatch_shell)
            if self._thread is None
            else kernel.shell_channel_thread_main
        )

    def hear(self, comm_id: str, action: Action) -> None:
        """Call `action` at each click of the widget behind `comm_id`, on the reading thread."""
        with self._lock:
            self._actions[comm_id] = action
            if len(self._actions) == 1:
                self._receive_by(self._look)

    def forget(self, comm_id: str) -> None:
        """Hear that widget no more; without any left, the kernel is as it was."""
        with self._lock:
            if self._actions.pop(comm_id, None) is not None and not self._actions:
                self._receive_by(self._forward)

    def pump(self) -> None:
        """Read what has arrived, where the blocked thread is the one that reads."""
        if self._thread is None:
            self._stream.flush()

    def _receive_by(self, callback: Callable[[Frames], object]) -> None:
        if self._thread is None:
            self._stream.on_recv(callback, copy=False)
            return
        placed = threading.Event()

        def place() -> None:
            self._stream.on_recv(callback, copy=False)
            placed.set()

        self._thread.io_loop.add_callback(place)  # a stream belongs to its loop's thread
        # No button may be shown before its clicks are heard.
        placed.wait(_PLACING_S)

    def _look(self, frames: Frames) -> object:
        # Of anything that goes wrong here the kernel must not notice a thing.
        with contextlib.suppress(Exception):
            action = self._actions.get(self._clicked(frames) or "")
            if action is not None:
                action()
        return self._forward(frames)

    def _clicked(self, frames: Frames) -> str | None:
        """Return the comm whose button a message says was clicked."""
        _, parts = self._session.feed_identities(frames, copy=False)
        # Reading the header alone checks the signature and does not mark it as seen.
        message = self._session.deserialize(parts, content=False, copy=False)
        if message["header"]["msg_type"] != "comm_msg":
            return None
        content = self._session.unpack(message["content"])
        clicked = content["data"].get("content", {}).get("event") == "click"
        return str(content["comm_id"]) if clicked else None


@contextlib.contextmanager
def heard(kernel: Any, button: Any, action: Action) -> Iterator[Callable[[], None]]:
    """Call `action` when `button` is clicked inside the block, also while the kernel is busy.

    It may be called on any thread, and more than once.

    Yields
    ------
    Callable[[], None]
        To be called at each tick by the thread that waits.
    """

    def clicked(_button: object) -> None:
        action()

    # The way of an idle kernel: a cell that awaits, or a subshell.
    button.on_click(clicked)
    tap, comm_id = _tapped(kernel, button, action)
    try:
        yield _guarded(tap)
    finally:
        if tap is not None:
            with contextlib.suppress(Exception):
                tap.forget(comm_id)
        button.on_click(clicked, remove=True)


def _tapped(kernel: Any, button: Any, action: Action) -> tuple[Tap | None, str]:
    """Put the tap in place; None where this kernel is not of a known kind."""
    try:
        tap = _TAPS.get(kernel)
        if tap is None:
            tap = _TAPS[kernel] = Tap(kernel)
        comm_id = str(button.comm.comm_id)
        tap.hear(comm_id, action)
    except Exception:
        log.info("the Cancel button waits for the cell here; Stop does not", exc_info=True)
        return None, ""
    return tap, comm_id


def _guarded(tap: Tap | None) -> Callable[[], None]:
    def pump() -> None:
        if tap is not None:
            with contextlib.suppress(Exception):
                tap.pump()

    return pump
