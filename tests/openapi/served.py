"""A team's service as a process of its own, for programs that only know its address and a key."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.test_cli import PATIENCE_S, Shell

# It asks nobody outside: its searches look through its own crawls, its ads are the sample's.
ENVIRON = {
    "WEBDATA_ENGINE_ONE": "local",
    "WEBDATA_ENGINE_TWO": "local",
    "WEBDATA_ENGINE_THREE": "local",
    "WEBDATA_CREATIVES_SOURCE": "sample",
}


@dataclass(frozen=True, slots=True)
class Served:
    """A running service."""

    url: str
    key: str
    process: subprocess.Popen[str]
    said: tuple[str, ...]

    @property
    def headers(self) -> dict[str, str]:
        """What a request of the account's holder carries."""
        return {"Authorization": f"Bearer {self.key}"}


@contextmanager
def team(
    home: Path, *options: str, key: str = "", plan: str = "unlimited", **environ: str
) -> Iterator[Served]:
    """Serve a team from `home`, with one account, until the block ends."""
    shell = Shell(home)
    if not key:
        made = shell.run("keys", "create", "--name", "alice", "--plan", plan)
        key = made.stdout.strip()
    words = ("serve", "--mode", "team", "--port", "0", *options)
    with shell.start(*words, **(ENVIRON | environ)) as process:
        try:
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                if " serves http://" in line:
                    break
            yield Served(said[-1].split()[-1], key, process, tuple(said))
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
