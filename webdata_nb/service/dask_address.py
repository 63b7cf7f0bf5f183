"""Parses the address of a Dask cluster, and refuses unencrypted ones of other machines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

MAX_LOCAL_WORKERS: Final = 64
_LAST_PORT: Final = 65_535
_LOCAL: Final = re.compile(r"local:(\d{1,4})")
_SCHEDULER: Final = re.compile(r"(tls|tcp)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class DaskAddress:
    """A running scheduler, or a number of worker processes to start on this machine.

    Attributes
    ----------
    scheduler
        The URL of the scheduler; None for processes on this machine.
    local_workers
        The number of processes on this machine; 0 with a scheduler.
    """

    scheduler: str | None
    local_workers: int = 0

    @property
    def is_encrypted(self) -> bool:
        """Whether the scheduler is reached through TLS; processes on this machine always are."""
        return self.scheduler is None or self.scheduler.startswith("tls://")

    @property
    def is_loopback(self) -> bool:
        """Whether the scheduler is on this machine."""
        match = _SCHEDULER.fullmatch(self.scheduler or "")
        return match is None or _is_loopback(match[2])


def parse_dask_address(text: str, *, insecure: bool) -> DaskAddress:
    """Return the address in `text`: ``tls://HOST:PORT``, ``tcp://HOST:PORT`` or ``local:N``.

    Parameters
    ----------
    text
        The address.
    insecure
        Whether a scheduler without TLS may be on another machine.

    Raises
    ------
    ValueError
        It is none, or without TLS on another machine; the message says what is allowed.

    Examples
    --------
    >>> parse_dask_address("local:2", insecure=False)
    DaskAddress(scheduler=None, local_workers=2)
    """
    if (local := _LOCAL.fullmatch(text)) is not None:
        if not 1 <= int(local[1]) <= MAX_LOCAL_WORKERS:
            raise ValueError(
                f"takes local:N with 1 to {MAX_LOCAL_WORKERS} worker processes, not {text}"
            )
        return DaskAddress(None, int(local[1]))
    match = _SCHEDULER.fullmatch(text)
    if match is None or not 1 <= int(match[3]) <= _LAST_PORT:
        # The text may be a URL with a password.
        raise ValueError(
            "takes tls://HOST:PORT of a Dask scheduler, tcp://127.0.0.1:PORT of one on this "
            "machine, or local:N for N worker processes on this machine"
        )
    address = DaskAddress(text)
    if not (address.is_encrypted or address.is_loopback or insecure):
        raise ValueError(
            f"refuses {text}: whoever reaches a Dask scheduler can run code on its workers; use "
            "tls:// with certificates, or --dask-insecure in a network that you trust"
        )
    return address


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
