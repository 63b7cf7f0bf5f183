"""JupyterLab in a real browser: a server, notebooks in it, and a reader who runs and clicks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.preloaded import WITHOUT_GRAMMARS
from tests.requirements import require_module

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

CHECKOUT: Final = Path(__file__).resolve().parents[2]
# Names a folder that keeps the screenshots, for a person to look at.
SCREENSHOTS: Final = "TESTED_SCREENSHOTS"
_TIMEOUT_S: Final = 120.0
_LATE_REPLIES: Final = """
import time
from IPython import get_ipython

session = get_ipython().kernel.session
send = session.send

def send_late(stream, message, *args, **kwargs):
    if message == "execute_reply":
        time.sleep(0.3)
    return send(stream, message, *args, **kwargs)

session.send = send_late
"""
_SERVER: Final = (
    f"{WITHOUT_GRAMMARS}import runpy; "
    "runpy.run_module('jupyterlab', run_name='__main__', alter_sys=True)"
)
# Each page would ask for it, which starts Node three times.
_NO_BUILD: Final = {"page_config_data": {"buildCheck": False}}
_OPEN: Final = """async path => {
    const { shell, commands } = window.jupyterapp;
    const before = [...shell.widgets("main")];
    await commands.execute("docmanager:open", { path });
    before.forEach(widget => widget.dispose());
}"""
_NO_NEWS: Final = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}


class Lab:
    """A running JupyterLab, on the folder that its notebooks are in."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder

    @contextmanager
    def dark(self) -> Iterator[None]:
        """Have the pages that are opened inside the block in the dark theme."""
        chosen = self._folder.parent / "jupyter" / "settings" / "@jupyterlab"
        file = chosen / "apputils-extension" / "themes.jupyterlab-settings"
        file.write_text(json.dumps({"theme": "JupyterLab Dark"}))
        try:
            yield
        finally:
            file.unlink()

    def write(self, name: str, cells: Sequence[str]) -> str:
        """Write a notebook and return its address."""
        nbformat = require_module("nbformat")
        new_cell = nbformat.v4.new_code_cell
        notebook = nbformat.v4.new_notebook(cells=[new_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        (self._folder / name).write_text(nbformat.writes(notebook), encoding="utf-8")
        return f"{self.url}lab/tree/{name}?reset"


@contextmanager
def running(folder: Path, *, expose: bool = False, late_replies: bool = False) -> Iterator[Lab]:
    """Run JupyterLab with settings of its own; its kernels end with it.

    With `expose`, a page can reach its application as `window.jupyterapp`. With `late_replies`,
    a cell ends 0.3 s after its output, so that a test that takes the one for the other fails.
    """
    notebooks, home = folder / "notebooks", folder / "jupyter"
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    startup = home / "ipython" / "profile_default" / "startup"
    for made in (notebooks, settings, startup):
        made.mkdir(parents=True)
    if late_replies:
        (startup / "late_replies.py").write_text(_LATE_REPLIES)
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(_NO_NEWS))
    own = {
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "PYTHONPATH": str(CHECKOUT),
    }
    options = (
        "--no-browser",
        "--allow-root",
        "--IdentityProvider.token=",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.root_dir={notebooks}",
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        f"--LabApp.expose_app_in_browser={expose}",
        f"--ServerApp.tornado_settings={_NO_BUILD}",
    )
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, *options],
            env=os.environ | own,
            cwd=notebooks,
            stdout=log,
            stderr=log,
        )
        try:
            yield Lab(_address(home / "runtime", server, home / "log"), notebooks)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(_TIMEOUT_S)


def _address(runtime: Path, server: subprocess.Popen[bytes], log: Path) -> str:
    """Return where the server listens, once it answers: it says so in a file."""
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        for file in runtime.glob("jpserver-*.json"):
            try:
                url = str(json.loads(file.read_text())["url"])
                urllib.request.urlopen(f"{url}api/status", timeout=5).close()
            except (OSError, ValueError):
                continue
            return url
        time.sleep(0.1)
    raise AssertionError(log.read_text())


class Notebook:
    """A notebook that is open in the browser.

    With `reload=False`, a page that exposes its application opens the notebook in the place of what
    it shows, which takes a fraction of the time.
    """

    def __init__(self, page: Page, url: str, *, reload: bool = True) -> None:
        self.page = page
        if reload or not page.evaluate("'jupyterapp' in window"):
            page.goto(url)
        else:
            page.evaluate(_OPEN, url.partition("/lab/tree/")[2].partition("?")[0])
        self._state("idle")
        self.cells = page.locator(".jp-Notebook .jp-CodeCell")

    def _state(self, word: str) -> None:
        # A narrow toolbar hides the indicator.
        indicator = self.page.locator(f".jp-Notebook-ExecutionIndicator[data-status={word}]")
        indicator.wait_for(state="attached")

    def run(self, *numbers: int) -> None:
        """Run cells as a reader does; those behind the first one queue.

        A cell that queues behind one that fails is dropped: see `run_each`.
        """
        for number in numbers:
            self.cells.nth(number).locator(".cm-content").click()
            self.page.keyboard.press("Shift+Enter")

    def run_until_heard(self, number: int) -> None:
        """Run a cell that may run twice: what is typed before the page listens is lost."""
        prompt = self._prompt(number)
        deadline = time.monotonic() + _TIMEOUT_S
        while prompt.inner_text().strip() in {"", "[ ]:"}:
            assert time.monotonic() < deadline, "the notebook never listened"
            if self.page.locator(".jp-Dialog").count():  # it says that its kernel is starting
                self.page.keyboard.press("Escape")
            else:
                self.run(number)
            self.page.wait_for_timeout(500)
        self.wait_until_done(number)

    def wait_until_done(self, number: int) -> None:
        """Wait until a cell has ended; behind its end, its prompt has a number."""
        self._prompt(number).filter(has_text=re.compile(r"\[\d+\]")).wait_for()

    def prompt(self, number: int) -> str:
        """Return what stands before a cell."""
        return self._prompt(number).inner_text().strip()

    def _prompt(self, number: int) -> Locator:
        return self.cells.nth(number).locator(".jp-InputPrompt")

    def run_each(self, *numbers: int) -> None:
        """Run cells one after another, each once the cell before it has ended.

        The output of a failing cell comes before its end, and what queues until then is dropped.
        """
        for number in numbers:
            self.run(number)
            self.wait_until_done(number)

    def wait_until_dropped(self, number: int) -> None:
        """Wait until a queued cell was dropped; its prompt is empty again."""
        self._prompt(number).filter(has_text=re.compile(r"\[ \]")).wait_for()

    def output(self, number: int) -> Locator:
        """Return what a cell shows."""
        return self.cells.nth(number).locator(".jp-OutputArea-output")

    def text(self, number: int) -> str:
        """Return what a cell shows, as text."""
        return "\n".join(self.output(number).all_inner_texts())

    def stop(self) -> None:
        """Press the Stop button of the toolbar."""
        self.page.locator("[data-command='notebook:interrupt-kernel']").first.click()

    def picture(self, name: str) -> None:
        """Take a screenshot, where somebody wants to look."""
        picture(self.page, name)


def picture(page: Page, name: str) -> None:
    """Take a screenshot of a page, where somebody wants to look."""
    if folder := os.environ.get(SCREENSHOTS):
        page.screenshot(path=Path(folder) / f"{name}.png")
