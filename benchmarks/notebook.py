"""Controls a process that crawls like a notebook, with a local service of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, Self

_CHECKOUT: Final = Path(__file__).resolve().parent.parent


class Notebook:
    """Runs `crawl_process` in a child process, which has imported only `webdata_nb`.

    Attributes
    ----------
    pid : int
        The child.
    pids : tuple of int
        What its service says of its own processes.
    """

    def __init__(self, url: str) -> None:
        self._home = tempfile.TemporaryDirectory()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.crawl_process", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_CHECKOUT,
            env={**os.environ, "WEBDATA_HOME": self._home.name},
        )
        self.pid = self._child.pid
        self.pids: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        try:
            self.pids = tuple(self._read())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def crawl(self, url: str, **options: Any) -> dict[str, Any]:
        """Crawl with these options of `crawl_df`; return `pages`, `seconds`, `markdown`, `line`."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"url": url, **options}) + "\n")
        self._child.stdin.flush()
        result: dict[str, Any] = self._read()
        return result

    def _read(self) -> Any:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"the process that crawls ended with {self._child.wait()}")
        return json.loads(line)

    def _close(self) -> None:
        """Close the input of the process, which then stops its service."""
        with self._child, self._home:
            if self._child.stdin is not None:
                self._child.stdin.close()
            self._child.wait()
