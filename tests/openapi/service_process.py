"""A team's service as a process of its own, for programs that only know its address and a key."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.shell import TIMEOUT_S, Shell

# It asks nobody outside: its searches look through its own crawls, its ads are the sample's,
# and its web archives have no address.
ENVIRON = {
    "WEBDATA_ENGINE_ONE": "local",
    "WEBDATA_ENGINE_TWO": "local",
    "WEBDATA_ENGINE_THREE": "local",
    "WEBDATA_CREATIVES_SOURCE": "sample",
    "WEBDATA_WAYBACK_URL": "none",
    "WEBDATA_COMMONCRAWL_URL": "none",
}


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """A running service."""

    url: str
    key: str
    process: subprocess.Popen[str]
    output_lines: list[str]
    reader: threading.Thread

    @property
    def headers(self) -> dict[str, str]:
        """What a request of the account's holder carries."""
        return {"Authorization": f"Bearer {self.key}"}

    def ended(self) -> str:
        """Wait for the end of the process; return all that it logged."""
        self.process.wait(TIMEOUT_S)
        self.reader.join(TIMEOUT_S)
        return "".join(self.output_lines)


@contextmanager
def team(
    home: Path,
    *options: str,
    key: str = "",
    plan: str = "unlimited",
    scopes: Sequence[str] = (),
    **environ: str,
) -> Iterator[ServiceProcess]:
    """Serve a team from `home`, with one account, until the block ends."""
    shell = Shell(home)
    if not key:
        words = ["keys", "create", "--name", "alice", "--plan", plan]
        if scopes:
            words += ["--scopes", ",".join(scopes)]
        made = shell.run(*words, **environ)
        key = made.stdout.strip()
    words = ["serve", "--mode", "team", "--port", "0", *options]
    with shell.start(*words, **(ENVIRON | environ)) as process:
        output_lines: list[str] = []
        up = threading.Event()

        def listen() -> None:
            # To its end: a service whose pipe is full waits for its reader with every request.
            for line in process.stderr or ():
                output_lines.append(line)
                if " serves http://" in line:
                    up.set()
            up.set()

        reader = threading.Thread(target=listen)
        reader.start()
        try:
            assert up.wait(TIMEOUT_S), output_lines
            found = re.search(r" serves (http://[^\s\"]+)", "".join(output_lines))
            assert found is not None
            yield ServiceProcess(found[1], key, process, output_lines, reader)
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)
            reader.join(TIMEOUT_S)
