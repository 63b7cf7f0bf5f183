"""Runs commands of `webdata` as a shell does."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import preloaded
from webdata_nb.__main__ import main
from webdata_nb.settings import options
from webdata_nb.toolkit import session

CHECKOUT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands with a home directory of their own."""

    home: Path

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        """Start a command."""
        # An interpreter reads some variables at its start.
        is_read = any(name.startswith(("PYTHON", "LC_", "LANG")) for name in environ)
        start = subprocess.Popen if is_read else preloaded.popen
        return start(
            [sys.executable, "-m", "webdata_nb", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=CHECKOUT,
            env=self._variables(environ),
        )

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a process, and wait for its end."""
        with self.start(*words, **environ) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT_S)
            finally:
                process.kill()
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def _variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, "WEBDATA_HOME": str(self.home), **environ}

    def call(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, which is faster."""
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(io.StringIO()) as out,
            redirect_stderr(io.StringIO()) as err,
        ):
            patch.setattr(session._DEFAULT, "connection", None)
            patch.setattr(warnings, "formatwarning", warnings.formatwarning)
            patch.setattr(options, "base_url", None)
            for name, value in {"WEBDATA_HOME": str(self.home), **environ}.items():
                patch.setenv(name, value)
            try:
                code = main(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            if session._DEFAULT.connection is not None:
                session._DEFAULT.connection.close()
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    @contextmanager
    def serving(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run the service in the foreground, until the block ends."""
        with self.start("serve", *words) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    if "serves http://" in line:
                        break
                yield process
            finally:
                process.terminate()
                process.communicate(timeout=TIMEOUT_S)
