"""Receives clicks of a widget's button while the kernel's main thread runs a cell.

A kernel handles shell messages one after the other, so a click waits behind the cell that it is
meant to end. `ClickTap` reads each message where it enters the kernel and passes it on unchanged
and in order. It uses private names of ipykernel. Where these differ from the versions that
`benchmarks.kernel_matrix` tests, the kernel is left alone, and only the Stop button works.
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

# The reading thread only passes messages on, so it answers soon.
_INSTALL_TIMEOUT_S: Final = 1.0
_TAPS: Final[dict[Any, ClickTap]] = {}  # by kernel; a process has one


class ClickTap:
    """Reads the messages of one kernel while there is a button to listen for."""

    def __init__(self, kernel: Any) -> None:
        self._session = kernel.session
        self._stream = kernel.shell_stream
        self._actions: dict[str, Action] = {}
        self._lock = threading.Lock()
        # Since ipykernel 7 a separate thread reads the shell socket; before, the main thread did,
        # between cells.
        self._thread = getattr(kernel, "shell_channel_thread", None)
        self._forward: Callable[[Frames], object] = (
            functools.partial(kernel.schedule_dispatch, kernel.dispatch_shell)
            if self._thread is None
            else kernel.shell_channel_thread_main
        )

    def add(self, comm_id: str, action: Action) -> None:
        """Call `action` on the reading thread at each click of the widget with this comm."""
        with self._lock:
            self._actions[comm_id] = action
            if len(self._actions) == 1:
                self._receive_by(self._read)

    def forget(self, comm_id: str) -> None:
        """Stop listening for a widget; restore the kernel after the last one."""
        with self._lock:
            if self._actions.pop(comm_id, None) is not None and not self._actions:
                self._receive_by(self._forward)

    def pump(self) -> None:
        """Read pending messages if the blocked thread is the one that reads them."""
        if self._thread is None:
            self._stream.flush()

    def _receive_by(self, callback: Callable[[Frames], object]) -> None:
        if self._thread is None:
            self._stream.on_recv(callback, copy=False)
            return
        installed = threading.Event()

        def place() -> None:
            self._stream.on_recv(callback, copy=False)
            installed.set()

        self._thread.io_loop.add_callback(place)  # a stream belongs to its loop's thread
        # The button must not be displayed before its clicks are received.
        installed.wait(_INSTALL_TIMEOUT_S)

    def _read(self, frames: Frames) -> object:
        # Errors must not reach the kernel.
        with contextlib.suppress(Exception):
            action = self._actions.get(self._clicked_comm(frames) or "")
            if action is not None:
                action()
        return self._forward(frames)

    def _clicked_comm(self, frames: Frames) -> str | None:
        """Return the comm id of the clicked button, or None for any other message."""
        _, parts = self._session.feed_identities(frames, copy=False)
        # Reading the header alone checks the signature and does not mark it as seen.
        message = self._session.deserialize(parts, content=False, copy=False)
        if message["header"]["msg_type"] != "comm_msg":
            return None
        content = self._session.unpack(message["content"])
        clicked = content["data"].get("content", {}).get("event") == "click"
        return str(content["comm_id"]) if clicked else None


@contextlib.contextmanager
def listen_for_clicks(kernel: Any, button: Any, action: Action) -> Iterator[Callable[[], None]]:
    """Call `action` at each click of `button` inside the block, even while the kernel is busy.

    `action` may be called on any thread and more than once.

    Yields
    ------
    Callable[[], None]
        The waiting thread must call it at each tick.
    """

    def clicked(_button: object) -> None:
        action()

    # For an idle kernel: a cell that awaits, or a subshell.
    button.on_click(clicked)
    tap, comm_id = _install_tap(kernel, button, action)
    try:
        yield _safe_pump(tap)
    finally:
        if tap is not None:
            with contextlib.suppress(Exception):
                tap.forget(comm_id)
        button.on_click(clicked, remove=True)


def _install_tap(kernel: Any, button: Any, action: Action) -> tuple[ClickTap | None, str]:
    """Install the tap; return None if this kind of kernel is unknown."""
    try:
        tap = _TAPS.get(kernel)
        if tap is None:
            tap = _TAPS[kernel] = ClickTap(kernel)
        comm_id = str(button.comm.comm_id)
        tap.add(comm_id, action)
    except Exception:
        log.info("the Cancel button works only after the cell has ended; use Stop", exc_info=True)
        return None, ""
    return tap, comm_id


def _safe_pump(tap: ClickTap | None) -> Callable[[], None]:
    def pump() -> None:
        if tap is not None:
            with contextlib.suppress(Exception):
                tap.pump()

    return pump
