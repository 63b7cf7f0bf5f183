"""A replica in a network namespace, whose packets to and from the database can be lost.

The namespace has two links to this machine: one to the database, which is cut, and one to the site
and the clients. A cut link loses packets silently, as a failed switch does: each side sends them to
a MAC address that nobody has, so no connection is refused, reset or unreachable.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pytest

from tests.postgres import PostgresServer
from tests.requirements import in_ci, require

Lost = Literal["both", "requests", "replies"]
"""Which packets are lost: those to the database, those of its replies, or both."""

_NOBODY: Final = "02:00:00:00:00:fe"
_ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A pair of network devices: `outer` of this machine, `inner` of the namespace."""

    namespace: str
    outer: str
    inner: str
    subnet: str

    @property
    def outer_address(self) -> str:
        """The address of this machine."""
        return f"{self.subnet}.1"

    @property
    def inner_address(self) -> str:
        """The address of the namespace."""
        return f"{self.subnet}.2"

    def open(self) -> None:
        """Create the devices, and set their addresses."""
        ip("link", "add", self.outer, "type", "veth", "peer", "name", self.inner)
        ip("link", "set", self.inner, "netns", self.namespace)
        for device, address, namespace in self._ends():
            ip("address", "add", f"{address}/30", "dev", device, namespace=namespace)
            ip("link", "set", device, "up", namespace=namespace)

    def cut(self, lost: Lost) -> None:
        """Lose packets from now on."""
        outer, inner = self._ends()
        if lost != "replies":
            self._send_to_nobody(inner, self.outer_address)
        if lost != "requests":
            self._send_to_nobody(outer, self.inner_address)

    def heal(self) -> None:
        """Lose no more packets."""
        for (device, _, namespace), other in zip(
            self._ends(), (self.inner_address, self.outer_address), strict=True
        ):
            with contextlib.suppress(subprocess.CalledProcessError):  # it was not cut
                ip("neighbour", "del", other, "dev", device, namespace=namespace)

    def _ends(self) -> tuple[tuple[str, str, str | None], tuple[str, str, str | None]]:
        """Return device, address and namespace of both ends."""
        return (
            (self.outer, self.outer_address, None),
            (self.inner, self.inner_address, self.namespace),
        )

    def _send_to_nobody(self, end: tuple[str, str, str | None], other: str) -> None:
        device, _, namespace = end
        options = ("lladdr", _NOBODY, "dev", device, "nud", "permanent")
        ip("neighbour", "replace", other, *options, namespace=namespace)


@dataclass(frozen=True, slots=True)
class Partition:
    """The namespace of a replica, its link to the database, and the one to everything else."""

    name: str
    database: Link
    others: Link

    @property
    def run_in(self) -> tuple[str, ...]:
        """The command that runs another one in the namespace."""
        return (str(require("ip")), "netns", "exec", self.name)

    def url_in(self, url: str) -> str:
        """Return the URL of a store for a replica of the namespace."""
        return url.replace("@127.0.0.1:", f"@{self.database.outer_address}:")


def ip(*arguments: str, namespace: str | None = None) -> None:
    """Run `ip` of iproute2, in a namespace by default that of this process."""
    inside = ("-n", namespace) if namespace else ()
    subprocess.run(
        [require("ip"), *inside, *arguments], check=True, capture_output=True, timeout=60
    )


@contextmanager
def partition() -> Iterator[Partition]:
    """Create a namespace with both links; skip the test where that is not allowed."""
    number = random.SystemRandom().randrange(1 << 14)
    name, subnet = f"wd{number}", f"10.{200 + number // 256 % 50}.{number % 128 * 2}"
    database = Link(name, f"{name}d", f"{name}di", subnet)
    other = f"10.{200 + number // 256 % 50}.{number % 128 * 2 + 1}"
    others = Link(name, f"{name}o", f"{name}oi", other)
    try:
        ip("netns", "add", name)
    except (subprocess.CalledProcessError, OSError):
        if in_ci() and os.geteuid() == _ROOT:
            raise
        pytest.skip("this machine does not allow network namespaces: they need root's rights")
    try:
        ip("link", "set", "lo", "up", namespace=name)
        for link in (database, others):
            link.open()
        yield Partition(name, database, others)
    finally:
        ip("netns", "del", name)


def listen_everywhere(server: PostgresServer) -> None:
    """Let a server accept the connections of namespaces."""
    server.configure(listen_addresses="'*'")
    access = Path(server.folder / "data" / "pg_hba.conf")
    with access.open("a", encoding="utf-8") as file:
        file.write("host all all 10.0.0.0/8 scram-sha-256\n")
    server.stop()
    server.start()
