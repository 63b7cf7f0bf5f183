"""Resolves the data directory of the local service, with a fallback if it cannot be used."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import platform
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from pydantic import ValidationError

from webdata_nb import caller
from webdata_nb.contract import local
from webdata_nb.contract.local import Runtime
from webdata_nb.errors import LocalServiceError
from webdata_nb.setting_values import is_private, user_directory
from webdata_nb.settings import Settings

# File systems without reliable locks and shared memory, which a database in WAL mode requires.
NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.glusterfs",
        "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs",
        "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "wekafs",
    }
)  # fmt: skip
# More than an empty database takes with its log.
_START_BYTES: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The data and log directories of one local service, which exist and are writable."""

    data_dir: Path
    log_dir: Path

    @property
    def log(self) -> Path:
        """The service's standard output and error."""
        return self.log_dir / "service.log"

    def service_lock(self) -> FileLock:
        """Return the lock that a service holds until its process ends."""
        return FileLock(self.data_dir / local.service_lock_name(platform.node()), mode=0o600)

    def start_lock(self) -> FileLock:
        """Return the lock that a client holds while it starts a service."""
        return FileLock(self.data_dir / local.start_lock_name(platform.node()), mode=0o600)

    def is_served(self) -> bool:
        """Whether a process holds the service's lock now."""
        lock = self.service_lock()
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    def read_runtime(self) -> Runtime | None:
        """Return the content of the runtime file; None without a file that is private and valid."""
        path = self.data_dir / local.runtime_name(platform.node(), _boot_id())
        try:
            with path.open("rb") as file:
                if not is_private(os.fstat(file.fileno())):
                    return None
                return Runtime.model_validate_json(file.read())
        except (OSError, ValidationError):
            return None


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path(local.BOOT_ID).read_text(encoding="ascii")
    return ""


def resolve_data_directory(settings: Settings, *, mounts: str | None = None) -> DataDirectory:
    """Return the directories of the local service of these settings.

    Parameters
    ----------
    settings
        Names the preferred data and log directories.
    mounts
        The mount table; this machine's by default.

    Raises
    ------
    LocalServiceError
        No directory is writable.

    Warns
    -----
    UserWarning
        Once per process, if a fallback directory on a local disk is used.
    """
    mount_table = _read_mounts() if mounts is None else mounts
    preferred = settings.data_dir
    network = network_file_system(preferred, mount_table)
    problem = None if network else write_problem(preferred)
    if network is None and problem is None:
        return _with_log_dir(preferred, settings.log_dir)
    fallback = _fallback_directory(preferred, mount_table, persistent=network is not None)
    _warn_once(
        f"{preferred} is on a network file system ({network}), where a database is not safe: the "
        f"local service keeps its data in {fallback}, on this machine's disk. Set WEBDATA_HOME to "
        "choose another local directory."
        if network
        else f"{preferred} cannot be written ({problem}): the local service keeps its data in the "
        f"temporary directory {fallback}. Set WEBDATA_HOME to a directory that can be written."
    )
    return _with_log_dir(fallback, fallback / "logs")


def _with_log_dir(data_dir: Path, log_dir: Path) -> DataDirectory:
    """Use the data directory for the log if the log directory is not writable."""
    return DataDirectory(data_dir, log_dir if write_problem(log_dir) is None else data_dir)


@functools.cache
def _warn_once(message: str) -> None:
    caller.warn(message)


def write_problem(directory: Path) -> str | None:
    """Return why `directory` is not writable, or None if it is; a missing one is created."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as error:
        return error.strerror or str(error)


def is_full(directory: Path) -> bool:
    """Whether the disk, or this user's quota, has no room for the files of a new service."""
    try:
        # Unbuffered, since the error of a full disk comes with the write.
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            return file.write(bytes(_START_BYTES)) < _START_BYTES
    except OSError as error:
        return error.errno in {errno.ENOSPC, errno.EDQUOT}


def _read_mounts() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    return ""


def network_file_system(path: Path, mounts: str) -> str | None:
    """Return the type of the network file system that contains `path`; None for a local disk.

    `mounts` has the format of Linux's /proc/self/mounts. Of two mounts on one mount point, the
    later one is in effect.
    """
    resolved, depth, mounted_type = path.resolve(), 0, ""
    for line in mounts.splitlines():
        _, escaped, file_system, *_ = line.split(" ")
        mount_point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), escaped))
        if resolved.is_relative_to(mount_point) and len(mount_point.parts) >= depth:
            depth, mounted_type = len(mount_point.parts), file_system
    return mounted_type if mounted_type in NETWORK_FILE_SYSTEMS else None


def _fallback_directory(preferred: Path, mounts: str, *, persistent: bool) -> Path:
    """Return a directory for `preferred` in a temporary directory; local disks come first."""
    parents = [Path(tempfile.gettempdir())]
    if persistent:  # /var/tmp survives a restart of the machine
        parents.insert(0, Path("/var/tmp"))  # noqa: S108 - only a private directory in it is used
    parents.sort(key=lambda parent: network_file_system(parent, mounts) is not None)
    for parent in filter(None, map(user_directory, parents)):
        directory = parent / hashlib.sha256(os.fsencode(preferred)).hexdigest()[:12]
        if write_problem(directory) is None:
            return directory
    raise LocalServiceError(
        f"Neither {preferred} nor a temporary directory can be written; set WEBDATA_HOME to one "
        "that can, or WEBDATA_BASE_URL to use a service elsewhere."
    )
