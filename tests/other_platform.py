"""Imports the package as on another platform, and prints what it does there, as JSON.

``python -m tests.other_platform win32`` takes away what Python lacks on that platform (modules,
functions, signals, ``/proc``), and reports it by `os.name` and `sys.platform`. The libraries are
imported before: they are not what is examined. A real file system, process or event loop of that
platform is not imitated.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import pkgutil
import resource
import signal
import socket
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any, Final

PACKAGE: Final = "webdata_nb"
LIMITS: Final = {"RLIMIT_AS": resource.RLIMIT_AS, "RLIMIT_CPU": resource.RLIMIT_CPU}
# https://docs.python.org/3/library: "Availability: Unix", or Linux.
MODULES: Final = {
    "win32": (
        *("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios"),
        *("tty", "uvloop"),
    ),
    "darwin": (),
}
LINUX_ONLY: Final = (
    *((os, name) for name in ("sched_getaffinity", "sched_setaffinity", "memfd_create")),
    *((os, name) for name in ("pidfd_open", "posix_fallocate", "O_TMPFILE", "getrandom")),
    (time, "CLOCK_BOOTTIME"),
    (socket, "TCP_USER_TIMEOUT"),
)
POSIX_ONLY: Final = (
    *(
        (os, name)
        for name in ("fork", "forkpty", "killpg", "setsid", "getpgid", "register_at_fork")
    ),
    *((os, name) for name in ("getuid", "geteuid", "getgid", "getegid", "getloadavg", "mkfifo")),
    *((os, name) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "fchmod")),
    *((os, name) for name in ("statvfs", "sysconf", "uname", "wait", "waitid", "chown", "nice")),
    *((os, name) for name in ("pread", "pwrite", "sendfile", "posix_fadvise", "fchown")),
    *((signal, name) for name in ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGSTOP", "SIGTSTP", "SIGXCPU")),
    *((signal, name) for name in ("SIGPROF", "SIGPIPE", "SIGBUS", "SIGTRAP", "SIGALRM", "SIGCHLD")),
    *(
        (signal, name)
        for name in ("SIGUSR1", "SIGUSR2", "setitimer", "ITIMER_PROF", "pthread_kill")
    ),
    *((socket, name) for name in ("AF_UNIX", "SO_REUSEPORT", "socketpair", "sendmsg")),
    *((time, name) for name in ("clock_gettime", "tzset")),
)
WINDOWS_ONLY: Final[dict[object, dict[str, Any]]] = {
    subprocess: {"CREATE_NEW_PROCESS_GROUP": 0x200, "CREATE_NO_WINDOW": 0x8000000},
    signal: {"SIGBREAK": 21, "CTRL_BREAK_EVENT": 1, "CTRL_C_EVENT": 0},
    os: {"O_BINARY": 0x8000},
}


def become(platform: str) -> None:
    """Make Python report and offer what it does on a platform."""
    for module, name in LINUX_ONLY + (POSIX_ONLY if platform == "win32" else ()):
        if hasattr(module, name):
            delattr(module, name)
    for name in MODULES[platform]:
        vars(sys)["modules"][name] = None  # its import fails
    sys.addaudithook(hide_proc)
    stat = os.stat
    os.stat = lambda path, **options: stat(hidden(path), **options)
    sys.platform = platform
    if platform == "win32":
        for owner, values in WINDOWS_ONLY.items():
            vars(owner).update(values)
        # In Python 3.13 they stand in a module within `pathlib`.
        names = pathlib.Path.__new__.__globals__
        names |= {"WindowsPath": pathlib.PosixPath, "PureWindowsPath": pathlib.PurePosixPath}
        # `ctypes` loads libraries with it, and `getpass` asks for the user's name.
        nt: Any = SimpleNamespace(_LOAD_LIBRARY_SEARCH_DEFAULT_DIRS=0x1000)
        sys.modules["nt"] = nt
        os.environ["USERNAME"] = "someone"
        os.name = "nt"


def hide_proc(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to open or list what is below ``/proc`` and ``/sys``."""
    if event in {"open", "os.listdir", "os.scandir"}:
        hidden(arguments[0])


def hidden(path: Any) -> Any:
    """Return a path; raise `FileNotFoundError` if only Linux has it."""
    if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(("/proc", "/sys")):
        raise FileNotFoundError(2, "No such file or directory", path)
    return path


def import_all() -> list[str]:
    """Import every module of the package; return what went wrong."""
    problems: list[str] = []
    package = importlib.import_module(PACKAGE)
    modules = pkgutil.walk_packages(package.__path__, f"{PACKAGE}.", problems.append)
    for module in modules:
        try:
            importlib.import_module(module.name)
        except Exception as error:  # noqa: BLE001 - each is reported
            problems.append(f"{module.name}: {type(error).__name__}: {error}")
    return problems


def of(module: str, name: str) -> Any:
    """Return a name of a module of the package."""
    return getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)


def outcomes() -> dict[str, object]:
    """Call what decides by the platform; an exception is the outcome of its call."""
    folder = pathlib.Path(sys.argv[2])
    folder.chmod(0o777)
    (folder / "home").mkdir(exist_ok=True)
    pid = os.getpid()
    calls: dict[str, tuple[str, str, tuple[object, ...]]] = {
        "boot": ("toolkit.local", "_boot_id", ()),
        "folder is private": ("settings", "is_private", (folder.stat(),)),
        "folder of a user": ("settings", "user_directory", (folder / "home",)),
        "memory": ("service.runtime.process", "limit_memory", (1,)),
        "processor time": ("service.creatives.ocr_process", "limit_processor_time", (3600,)),
        "processors": ("service.runtime.process", "available_processors", ()),
        "allocator": ("malloc", "tune", ()),
        "trim": ("malloc", "trim", ()),
        "standard error": ("service.observability.logs", "_redirect_stderr", ()),
        "descendants": ("service.routes.local", "_descendants", (pid,)),
        "process": ("service.browser.chromium", "_is_running", (pid,)),
        "owner": ("service.browser.chromium", "_is_owned_by_user", (folder,)),
    }
    before = {name: resource.getrlimit(number) for name, number in LIMITS.items()}
    results: dict[str, object] = {"creation flags": of("toolkit.local", "_CREATION_FLAGS")}
    for name, (module, function, arguments) in calls.items():
        try:
            result = of(module, function)(*arguments)
            results[name] = result.name if isinstance(result, pathlib.Path) else result
        except Exception as error:  # noqa: BLE001 - each is reported
            results[name] = f"{type(error).__name__}: {error}"
    results["limits"] = [
        name for name, number in LIMITS.items() if resource.getrlimit(number) != before[name]
    ]
    return results


def main() -> None:
    """Print the problems of the imports and the outcomes of the calls."""
    warnings.simplefilter("ignore")  # pandas: an accessor is registered for a second time
    before = import_all()
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    become(sys.argv[1])
    print(
        json.dumps({"before": before, "imports": import_all(), "outcomes": outcomes()}, default=str)
    )


if __name__ == "__main__":
    main()
