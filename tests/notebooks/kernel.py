"""A real kernel, driven over its own protocol: cells, clicks, interrupts, and what they show."""

from __future__ import annotations

import json
import os
import queue
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

CHECKOUT: Final = Path(__file__).resolve().parents[2]
# Names the interpreter whose ipykernel is tested; `benchmarks.kernel_matrix` sets it.
PYTHON: Final = "TESTED_KERNEL_PYTHON"
_TIMEOUT_S: Final = 120.0


@dataclass
class Cell:
    """What one execution said so far."""

    sent_as: str
    status: str | None = None
    idle: bool = False
    opened: dict[str, dict[str, Any]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    updates: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    error: dict[str, Any] | None = None

    @property
    def displays(self) -> set[str]:
        """The names of its outputs that can be replaced."""
        display_ids = (output.get("transient", {}).get("display_id") for output in self.outputs)
        return {name for name in display_ids if name is not None}

    @property
    def ended(self) -> bool:
        """Whether its reply and its last output are here."""
        return self.idle and self.status is not None

    def widgets(self, model: str) -> list[str]:
        """Return the comms of its widgets of one kind."""
        return [comm for comm, state in self.opened.items() if state.get("_model_name") == model]

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Take note of one message."""
        if kind == "comm_open":
            self.opened[content["comm_id"]] = content["data"]["state"]
        elif kind == "comm_msg":
            state = content["data"].get("state", {})
            self.updates.setdefault(content["comm_id"], []).append(state)
        elif kind == "comm_close":
            self.closed.append(content["comm_id"])
        elif kind in {"display_data", "execute_result"}:
            self.outputs.append(content)
        elif kind == "update_display_data":
            self._replace(content)
        elif kind == "stream":
            self.text += content["text"]
        elif kind == "error":
            self.error = content
        elif kind == "status":
            self.idle = content["execution_state"] == "idle"

    def _replace(self, content: dict[str, Any]) -> None:
        """Do as a front end does: the output with this name now shows something else."""
        name = content["transient"]["display_id"]
        for output in self.outputs:
            if output.get("transient", {}).get("display_id") == name:
                output["data"] = content["data"]


class Kernel:
    """A kernel that runs while the context is open.

    Attributes
    ----------
    answered : set of str
        Ids of the requests that were answered so far.
    """

    def __init__(self, folder: Path) -> None:
        specs = folder / "kernels" / "tested"
        specs.mkdir(parents=True)
        python = os.environ.get(PYTHON, sys.executable)
        argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": "tested", "language": "python"}
        (specs / "kernel.json").write_text(json.dumps(spec))
        found = KernelSpecManager(kernel_dirs=[str(specs.parent)])
        self._manager: Any = KernelManager(kernel_name="tested", kernel_spec_manager=found)
        self._cells: dict[str, Cell] = {}
        self.answered: set[str] = set()

    def __enter__(self) -> Self:
        # The checkout's package, with an interpreter that has not installed it.
        paths = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
        self._manager.start_kernel(
            cwd=str(CHECKOUT), env=os.environ | {"PYTHONPATH": paths}, stderr=-3
        )
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=_TIMEOUT_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    def send(self, code: str, *, live: bool = True) -> Cell:
        """Queue a cell. `live`: somebody is there to answer, as in a browser."""
        cell = Cell(self._client.execute(code, allow_stdin=live))
        self._cells[cell.sent_as] = cell
        return cell

    def run(self, code: str, *, live: bool = True) -> Cell:
        """Run a cell to its end."""
        cell = self.send(code, live=live)
        self.until(lambda: cell.ended)
        return cell

    def click(self, comm_id: str) -> None:
        """Click the button behind `comm_id`, as a front end without subshells does."""
        data = {"method": "custom", "content": {"event": "click"}}
        message = self._client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        self._client.shell_channel.send(message)

    def ask(self) -> str:
        """Ask the kernel what it is, and return the request's id."""
        return str(self._client.kernel_info())

    def interrupt(self) -> None:
        """Press Stop."""
        self._manager.interrupt_kernel()

    def ends(self) -> bool:
        """Shut down as a front end does, and tell whether the process ended by itself."""
        self._client.shutdown()
        deadline = time.monotonic() + _TIMEOUT_S
        while self._manager.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        return not self._manager.is_alive()

    def until(self, reached: Callable[[], bool]) -> None:
        """Take in messages until `reached`."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not reached():
            assert time.monotonic() < deadline, f"never came: {self._recent()}"
            self._take_in()

    def _recent(self) -> list[tuple[str | None, str, str]]:
        """Return how the last cells are doing."""
        cells = list(self._cells.values())[-3:]
        return [(cell.status, cell.text, (cell.error or {}).get("evalue", "")) for cell in cells]

    def _take_in(self) -> None:
        self._take_replies()
        try:
            message = self._client.get_iopub_msg(timeout=0.1)
        except queue.Empty:
            return
        cell = self._owner(message["content"])
        if cell is None:
            cell = self._cells.get(message["parent_header"].get("msg_id"))
        if cell is not None:
            cell.take(message["msg_type"], message["content"])

    def _owner(self, content: dict[str, Any]) -> Cell | None:
        """Return whose widget or output a message is about, whatever cell ran when it was sent."""
        comm, output = content.get("comm_id"), content.get("transient", {}).get("display_id")
        for cell in self._cells.values():
            if comm in cell.opened or (output is not None and output in cell.displays):
                return cell
        return None

    def _take_replies(self) -> None:
        while True:
            try:
                reply = self._client.get_shell_msg(timeout=0)
            except queue.Empty:
                return
            request_id = reply["parent_header"]["msg_id"]
            self.answered.add(request_id)
            if request_id in self._cells:
                self._cells[request_id].status = reply["content"]["status"]


@contextmanager
def started(folder: Path) -> Iterator[Kernel]:
    """Run a kernel that has the package loaded, so that no cell waits for imports."""
    with Kernel(folder) as kernel:
        loaded = kernel.run("import webdata_nb.toolkit.api, ipywidgets")
        assert loaded.status == "ok", loaded.error
        yield kernel
