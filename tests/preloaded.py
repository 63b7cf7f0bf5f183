"""Runs code in processes that need no time for imports: forks of an interpreter that has them."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent
# The code of the module runs, and its process ends, as those of any program.
_PROGRAM: Final = """
{imports}
from tests.preloaded import wait_for_code
exec(wait_for_code({descriptor}), {{"__name__": "__main__"}})
"""
_MAX_REQUEST_BYTES: Final = 1 << 17


class ForkedProcess:
    """A process that runs, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, exit_code: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.exit_code = exit_code  # a pipe that can be read when the process has ended

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process, and return its exit code."""
        if (code := self._read(timeout)) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self.exit_code], [], [], timeout)[0]:
            self.returncode = int(os.read(self.exit_code, 10))
            os.close(self.exit_code)
        return self.returncode


class PreloadedInterpreter:
    """An interpreter that starts at its first use, imports modules, and forks for each program.

    `tests/conftest.py` closes all of them.
    """

    running: ClassVar[list[PreloadedInterpreter]] = []

    def __init__(self, imports: str) -> None:
        self._imports = imports
        self._server: subprocess.Popen[bytes] | None = None

    def start(
        self,
        code: str,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        stdin: int | None = None,
        output: tuple[int, int] = (1, 2),
    ) -> ForkedProcess:
        """Run code in a process of its own.

        Parameters
        ----------
        code
            A program; its first argument is `arguments[0]`.
        environ
            All variables; by default those of this process.
        stdin
            The descriptor of its standard input; by default it is empty.
        output
            The descriptors of its standard output and standard error.
        """
        if self._server is None:
            self._launch()
        variables = dict(os.environ if environ is None else environ)
        request = json.dumps([code, arguments, variables]).encode()
        assert len(request) <= _MAX_REQUEST_BYTES
        exit_code, exit_code_writer = os.pipe()
        descriptors = [exit_code_writer, *output, *(() if stdin is None else (stdin,))]
        socket.send_fds(self._socket, [request], descriptors)
        os.close(exit_code_writer)
        return ForkedProcess(int(self._socket.recv(20)), exit_code)

    def run(
        self,
        code: str,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        timeout: float = 120.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run code in a process of its own, and wait for its end."""
        with (
            tempfile.TemporaryFile("w+", errors="replace") as out,
            tempfile.TemporaryFile("w+", errors="replace") as err,
        ):
            output = (out.fileno(), err.fileno())
            process = self.start(code, *arguments, environ=environ, output=output)
            try:
                process.wait(timeout)
            finally:
                process.kill()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(
                arguments, process.wait(timeout), out.read(), err.read()
            )

    @classmethod
    def close_all(cls) -> None:
        """Stop the interpreters of this process; what they have forked goes on."""
        while cls.running:
            interpreter = cls.running.pop()
            interpreter._socket.close()
            assert interpreter._server is not None
            interpreter._server.wait(60)
            interpreter._server = None

    def _launch(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            program = _PROGRAM.format(imports=self._imports, descriptor=other.fileno())
            self._server = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                cwd=CHECKOUT,
            )
        self.running.append(self)


# Runs commands of `webdata`.
COMMANDS: Final = PreloadedInterpreter("import webdata_nb.__main__, webdata_nb.service.app, pandas")
COMMAND: Final = "from webdata_nb.__main__ import main; raise SystemExit(main())"


def wait_for_code(descriptor: int) -> str:
    """Fork for each request that a socket has; return the code of one in its own process only."""
    exit_codes: dict[int, int] = {}

    def report(*_signal: object) -> None:
        for pid in tuple(exit_codes):
            ended, status = 0, 0
            with suppress(ChildProcessError):  # a signal during this call has reaped it
                ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                writer = exit_codes.pop(pid)
                os.write(writer, str(os.waitstatus_to_exitcode(status)).encode())
                os.close(writer)

    signal.signal(signal.SIGCHLD, report)
    server = socket.socket(fileno=descriptor)
    gc.collect()
    gc.freeze()  # else each process would visit, and so copy, all objects at its end
    while True:
        request, descriptors, _flags, _address = socket.recv_fds(server, _MAX_REQUEST_BYTES, 4)
        if not request:
            raise SystemExit
        exit_code, *streams = descriptors  # standard output, standard error, standard input
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        child = os.fork()
        if child == 0:
            break
        exit_codes[child] = exit_code
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        for stream in streams:
            os.close(stream)
        server.send(str(child).encode())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    server.close()
    for stream, number in zip(streams, (1, 2, 0), strict=False):
        os.dup2(stream, number)
    for other in (*streams, exit_code, *exit_codes.values()):
        os.close(other)
    code, arguments, variables = json.loads(request)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["-c", *arguments]
    return str(code)
