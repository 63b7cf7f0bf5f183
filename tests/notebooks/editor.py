"""marimo's editor, which runs the cells of one notebook and is looked at in a browser."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent
from typing import Final

from tests.ports import free_port

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_TIMEOUT_S: Final = 120.0


def _app(cells: Sequence[str]) -> str:
    written = "".join(
        f"\n@app.cell\ndef _():\n{indent(cell, '    ')}\n    return\n" for cell in cells
    )
    return (
        f'import marimo\napp = marimo.App()\n{written}\nif __name__ == "__main__":\n    app.run()\n'
    )


@contextmanager
def running(folder: Path, cells: Sequence[str]) -> Iterator[str]:
    """Serve the editor of a new notebook with these cells; give its address."""
    file = folder / "notebook.py"
    file.write_text(_app(cells), encoding="utf-8")
    port = free_port()
    own = {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "PYTHONPATH": str(CHECKOUT),
        "WEBDATA_HOME": str(folder / "webdata"),
    }
    options = ("--headless", "--no-token", "--skip-update-check", "--port", str(port))
    log = folder / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "marimo", "edit", *options, str(file)],
            env=os.environ | own,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # its kernels end with it
        )
        try:
            yield _answering(f"http://127.0.0.1:{port}", server, log)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(_TIMEOUT_S)


def _answering(url: str, server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return url
    raise AssertionError(log.read_text())
