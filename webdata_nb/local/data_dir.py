"""Where the local service keeps its data: the user's directory, or a stand-in where it cannot."""

from __future__ import annotations

import contextlib
import functools
import getpass
import hashlib
import os
import platform
import re
import stat
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from pydantic import ValidationError

from webdata_nb.contract import local
from webdata_nb.contract.local import Runtime
from webdata_nb.errors import LocalServiceError
from webdata_nb.settings import Settings

# Where locks and shared memory, which a database in WAL mode needs, do not work reliably.
NETWORK_TYPES: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.glusterfs",
        "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs",
        "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "wekafs",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """The data and log directories of one local service, which exist and can be written."""

    data_dir: Path
    log_dir: Path

    @property
    def log(self) -> Path:
        """The service's standard output and error."""
        return self.log_dir / "service.log"

    def service_lock(self) -> FileLock:
        """Return the lock that a service holds for life."""
        return FileLock(self.data_dir / local.service_lock_name(platform.node()), mode=0o600)

    def start_lock(self) -> FileLock:
        """Return the lock that a client holds while it starts a service."""
        return FileLock(self.data_dir / local.start_lock_name(platform.node()), mode=0o600)

    def served(self) -> bool:
        """Whether some process holds the service's lock at this moment."""
        lock = self.service_lock()
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    def runtime(self) -> Runtime | None:
        """Return what the runtime file says, if there is one and only its owner can read it."""
        path = self.data_dir / local.runtime_name(platform.node(), _boot())
        try:
            with path.open("rb") as file:
                if not _private(os.fstat(file.fileno())):
                    return None
                return Runtime.model_validate_json(file.read())
        except (OSError, ValidationError):
            return None


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path(local.BOOT_ID).read_text(encoding="ascii")
    return ""


def _private(seen: os.stat_result) -> bool:
    """Whether it is ours and nobody else's; Windows keeps the user's directories apart itself."""
    if os.name == "nt":
        return True
    return seen.st_uid == os.geteuid() and not seen.st_mode & 0o077


def place(settings: Settings, *, mounts: str | None = None) -> Place:
    """Return where the local service of these settings lives.

    Parameters
    ----------
    settings
        Names the wanted data and log directories.
    mounts
        The mount table to judge by; this machine's by default.

    Raises
    ------
    LocalServiceError
        No directory at all can be written.

    Warns
    -----
    UserWarning
        Once a process, where a directory on a local disk had to stand in.
    """
    table = _mounts() if mounts is None else mounts
    wanted = settings.data_dir
    network = network_type(wanted, table)
    problem = None if network else unwritable(wanted)
    if network is None and problem is None:
        return _with_logs(wanted, settings.log_dir)
    other = _stand_in(wanted, table, lasting=network is not None)
    _warn_once(
        f"{wanted} is on a network file system ({network}), where a database is not safe: the "
        f"local service keeps its data in {other}, on this machine's disk. Set WEBDATA_HOME to "
        "choose another local directory."
        if network
        else f"{wanted} cannot be written ({problem}): the local service keeps its data in the "
        f"temporary directory {other}. Set WEBDATA_HOME to a directory that can be written."
    )
    return _with_logs(other, other / "logs")


def _with_logs(data_dir: Path, log_dir: Path) -> Place:
    """Keep the log with the data where it cannot be kept apart."""
    return Place(data_dir, log_dir if unwritable(log_dir) is None else data_dir)


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)


def unwritable(directory: Path) -> str | None:
    """Return why nothing can be written to `directory`, made if missing; None where it can."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _mounts() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    return ""


def network_type(path: Path, mounts: str) -> str | None:
    """Return the type of the network file system that holds `path`, or None on a local disk.

    `mounts` is a mount table as in Linux's /proc/self/mounts; of mounts on one point the last
    counts.
    """
    real, depth, kind = path.resolve(), 0, ""
    for line in mounts.splitlines():
        _, point, found, *_ = line.split(" ")
        at = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point))
        if real.is_relative_to(at) and len(at.parts) >= depth:
            depth, kind = len(at.parts), found
    return kind if kind in NETWORK_TYPES else None


def _stand_in(wanted: Path, mounts: str, *, lasting: bool) -> Path:
    """Return this user's own directory for `wanted` below a temporary one."""
    bases = [Path(tempfile.gettempdir())]
    if lasting:  # /var/tmp outlives a restart of the machine
        bases.insert(0, Path("/var/tmp"))  # noqa: S108 - only a directory of our own is used in it
    for base in sorted(bases, key=lambda one: network_type(one, mounts) is not None):
        own = _own(base)
        if own is not None:
            directory = own / hashlib.sha256(os.fsencode(wanted)).hexdigest()[:12]
            if unwritable(directory) is None:
                return directory
    raise LocalServiceError(
        f"Neither {wanted} nor a temporary directory can be written; set WEBDATA_HOME to one "
        "that can, or WEBDATA_BASE_URL to use a service elsewhere."
    )


def _own(base: Path) -> Path | None:
    """Make this user's directory in one that others can write to; None if someone else did."""
    own = base / f"webdata-{os.getuid() if os.name != 'nt' else getpass.getuser()}"
    try:
        own.mkdir(mode=0o700, exist_ok=True)
        seen = own.lstat()
    except OSError:
        return None
    return own if stat.S_ISDIR(seen.st_mode) and _private(seen) else None
