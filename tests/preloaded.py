"""Runs programs in processes that need no time for imports: forks of an interpreter with them."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent
# The code of the module runs, and its process ends, as those of any program. The comment at the end
# has the room for the command line of a program.
_PROGRAM: Final = (
    """
{imports}
from tests.preloaded import wait_for_program
exec(wait_for_program({parent}, {listener}), {{"__name__": "__main__"}})
"""
    + "#" * (1 << 12)
)
_MAX_REQUEST_BYTES: Final = 1 << 17
# Stands for an exit code that nobody has seen; no test expects it.
_UNKNOWN: Final = 255
# Positions in /proc/self/stat, after the name of the program, of the place of the command line.
_COMMAND_LINE: Final = slice(45, 47)


class ForkedProcess(subprocess.Popen[Any]):
    """A process of `PreloadedInterpreter.start`."""

    def __init__(self, server: Path, code: str, command: Sequence[str], **options: Any) -> None:
        self._server, self._code, self._lock = server, code, threading.Lock()
        super().__init__([sys.executable, *command], **options)

    def _execute_child(
        self,
        words: Sequence[str],
        executable: Any,
        preexec_fn: Any,
        _close_fds: Any,
        pass_fds: Any,
        folder: str | Path | None,
        variables: Mapping[str, str] | None,
        _startupinfo: Any,
        _creationflags: Any,
        shell: Any,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        _restore_signals: Any,
        gid: Any,
        gids: Any,
        uid: Any,
        umask: Any,
        start_new_session: bool,
        process_group: int,
    ) -> None:
        others = [executable, preexec_fn, pass_fds or None, shell or None, gid, gids, uid]
        assert [*others, umask] == [None] * len(others) + [-1], "not possible with a fork"
        request = {
            "code": self._code,
            "words": words,
            "variables": dict(os.environ if variables is None else variables),
            "folder": str(folder or Path.cwd()),
            "is_session": start_new_session,
            "process_group": process_group,
        }
        message = json.dumps(request).encode()
        assert len(message) <= _MAX_REQUEST_BYTES
        given = enumerate((p2cread, c2pwrite, errwrite))
        streams = [own if descriptor == -1 else descriptor for own, descriptor in given]
        # The server sends the process id, and the exit code when the process has ended.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(str(self._server))
            socket.send_fds(connection, [message], streams)
            self.pid = int(connection.recv(20))
            self.connection = connection.detach()
        weakref.finalize(
            self, os.close, self.connection
        )  # other threads may wait for it until then
        self._child_created = True
        own: Any = self  # what the stubs of `Popen` do not have
        own._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _internal_poll(self, *_at_exit: Any, **_options: Any) -> int | None:
        return self._exit_code_within(0)

    def _wait(self, timeout: float | None) -> int:
        if (code := self._exit_code_within(timeout)) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _exit_code_within(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self.connection], [], [], timeout)[0]:
            with self._lock:
                if self.returncode is None:
                    # Nothing is read where the interpreter was closed before this process ended.
                    self.returncode = int(os.read(self.connection, 20) or _UNKNOWN)
        return self.returncode


class PreloadedInterpreter:
    """An interpreter that starts at its first use, imports modules, and forks for each program.

    `tests/conftest.py` closes all of them.
    """

    running: ClassVar[list[PreloadedInterpreter]] = []

    def __init__(self, imports: str) -> None:
        self._imports = imports
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(
        self, code: str, *arguments: str, command: Sequence[str] = (), **options: Any
    ) -> ForkedProcess:
        """Run code in a process of its own.

        Parameters
        ----------
        code
            A program; its first argument is `arguments[0]`.
        command
            The arguments of the interpreter that other processes see in its command line.
        options
            Those of `subprocess.Popen`, without the few that need another program. The standard
            input is empty by default.
        """
        options = {"stdin": subprocess.DEVNULL} | options
        code = f"import sys; sys.argv[1:] = {list(arguments)}\n{code}"
        return ForkedProcess(self.address(), code, command or ["-c", *arguments], **options)

    def run(
        self, code: str, *arguments: str, timeout: float = 120.0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run code in a process of its own, and wait for its end."""
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.start(code, *arguments, text=True, errors="replace", **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            finally:
                process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def address(self) -> Path:
        """Return where any process can ask for one, and launch the interpreter if needed."""
        with self._lock:
            if self._server is None:
                self._launch()
            return self._folder / "server"

    def _launch(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="preloaded-"))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection, parent = socket.socketpair()
        with listener, parent:
            listener.bind(str(self._folder / "server"))
            listener.listen(100)
            numbers = {"parent": parent.fileno(), "listener": listener.fileno()}
            program = _PROGRAM.format(imports=self._imports, **numbers)
            self._server = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                pass_fds=list(numbers.values()),
                cwd=CHECKOUT,
            )
        self.running.append(self)

    @classmethod
    def close_all(cls) -> None:
        """Stop the interpreters of this process; what they have forked goes on."""
        while cls.running:
            interpreter = cls.running.pop()
            interpreter._connection.close()
            assert interpreter._server is not None
            interpreter._server.wait(60)
            interpreter._server = None
            shutil.rmtree(interpreter._folder)


# For programs that use the package, its commands, and its services. One page worker is enough for
# what a test lets a service do, and each takes a sixth of a second to import what it needs.
PACKAGE: Final = PreloadedInterpreter(
    "import pandas, webdata_nb.cli.doctor, webdata_nb.cli.service, webdata_nb.cli.tables\n"
    "import webdata_nb.service.app, webdata_nb.toolkit.api\n"
    "import webdata_nb.service.work.job_processor as processor; processor.PAGE_WORKERS = 1"
)
# jsonschema imports this module for formats that no test checks. It compiles 38 grammars, which
# takes more than a second.
WITHOUT_GRAMMARS: Final = (
    "import sys, types; sys.modules['rfc3987_syntax'] = types.ModuleType('rfc3987_syntax')\n"
)
# For programs that run notebooks; a kernel is a process of its own.
NOTEBOOKS: Final = PreloadedInterpreter(
    WITHOUT_GRAMMARS + "import nbmake.pytest_plugin, papermill.cli, pytest"
)
_MODULE: Final = "import runpy; runpy.run_module({!r}, run_name='__main__', alter_sys=True)"


def start_command(*words: str, module: str = "webdata_nb", **options: Any) -> ForkedProcess:
    """Start a command of `webdata`, or of another module that runs it: `python -m MODULE WORDS`."""
    return PACKAGE.start(_MODULE.format(module), *words, command=["-m", module, *words], **options)


def popen(words: Sequence[str], **options: Any) -> ForkedProcess:
    """Do what `subprocess.Popen` does for `[sys.executable, ..., "-m", MODULE, WORD...]`.

    Or for `[sys.executable, "-c", CODE, ARGUMENT...]`.
    """
    if words[1] == "-c":
        return PACKAGE.start(*words[2:], **options)
    module, *arguments = words[words.index("-m") + 1 :]
    return start_command(*arguments, module=module, **options)


# A module that has this in place of `subprocess` forks what it starts by `Popen`.
FORKING_SUBPROCESS: Final = SimpleNamespace(**vars(subprocess) | {"Popen": popen})


def run_notebook(
    module: str, *words: str, timeout: float = 360.0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program that runs notebooks, `python -m MODULE WORDS`, and wait for its end."""
    return NOTEBOOKS.run(_MODULE.format(module), *words, timeout=timeout, **options)


def run_command(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of `webdata`, and wait for its end."""
    return PACKAGE.run(_MODULE.format("webdata_nb"), *words, **options)


def wait_for_program(parent: int, listener: int) -> str:
    """Fork for each request at a socket; return the program of one in its own process only."""
    connections: dict[int, socket.socket] = {}

    def report(*_signal: object) -> None:
        for pid in tuple(connections):
            ended, status = 0, 0
            with suppress(ChildProcessError):  # a signal during this call has reaped it
                ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with connections.pop(pid) as connection, suppress(OSError):  # its caller has ended
                    connection.send(str(os.waitstatus_to_exitcode(status)).encode())

    signal.signal(signal.SIGCHLD, report)
    server = socket.socket(fileno=listener)
    gc.collect()
    gc.freeze()  # else each process would visit, and so copy, all objects at its end
    while True:
        if select.select([parent, server.fileno()], [], [])[0] == [parent]:
            raise SystemExit  # it has closed its end
        connection, _ = server.accept()
        message, streams, _flags, _address = socket.recv_fds(connection, _MAX_REQUEST_BYTES, 3)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        child = os.fork()
        if child == 0:
            break
        connections[child] = connection
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        for stream in streams:
            os.close(stream)
    request = json.loads(message)
    _become(request, streams)
    connection.send(str(os.getpid()).encode())
    for other in (server, connection, *connections.values()):
        other.close()
    os.close(parent)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    return str(request["code"])


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Turn this fork into a process as `subprocess.Popen` starts one."""
    if request["is_session"]:
        os.setsid()
    if request["process_group"] != -1:
        os.setpgid(0, request["process_group"])
    # Others find a process by its command line.
    figures = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, end = map(int, figures[_COMMAND_LINE])
    line = "\0".join(request["words"]).encode()
    assert len(line) < end - first
    ctypes.memset(first, 0, end - first)
    ctypes.memmove(first, line, len(line))
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # The streams of the interpreter have the properties of its own descriptors.
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = getattr(sys, name).errors
        buffering = 1 if number == 2 else -1  # lines
        stream = open(number, mode, buffering, errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.argv = ["-c"]
