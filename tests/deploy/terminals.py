"""Types the commands of a guide into a terminal, in order, in a fresh folder."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.deploy.proxy import DEPLOY
from tests.deploy.stand_ins import CHECKOUT, Systemd

GUIDE: Final = CHECKOUT / "docs" / "guide"
COMMAND_S: Final = 120.0
BLOCK: Final = re.compile(r"^```(sh|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
# Commands that run until they are stopped, and what they print when they are ready.
LONG: Final = re.compile(r"(webdata (serve|worker)|dask (scheduler|worker)) ")
READY: Final = re.compile(
    r"serves http://|runs jobs as|Scheduler at: |Registered to: ", re.MULTILINE
)
# Paths of the machine that are below the folder here.
MACHINE_PATH: Final = re.compile(
    r"(?<![\w.])/(?=(srv|etc/webdata|etc/systemd|etc/prometheus|opt)\b)"
)
STAND_INS: Final = ("systemctl", "systemd-run", "docker", "pip", "useradd")
API_KEY: Final = re.compile(r"^wdk_\S+$", re.MULTILINE)


def sections(page: str) -> dict[str, list[tuple[str, str]]]:
    """Return the blocks of each section of a guide, as their language and text."""
    text = (GUIDE / page).read_text("utf-8")
    starts = [*HEADING.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    found = {
        match[1]: BLOCK.findall(text[match.start() : end])
        for match, end in zip(starts, ends, strict=True)
    }
    return {title: blocks for title, blocks in found.items() if blocks}


def commands(block: str) -> Iterator[str]:
    """Yield the commands of a block: the smallest groups of lines that a shell accepts."""
    lines: list[str] = []
    for line in block.splitlines():
        lines.append(line)
        text = "\n".join(lines)
        checked = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        )
        if checked.returncode == 0 and not line.endswith("\\"):
            yield text
            lines = []
    if lines:
        raise ValueError(f"not a command: {lines}")


@dataclass(slots=True)
class Terminal:
    """A shell in a fresh folder, with the variables that its commands export.

    Parameters
    ----------
    folder
        The folder, which also stands for the root of the machine.
    substitutions
        What replaces a placeholder or a port of the guide, by pattern.
    environ
        Variables that a guide takes from an earlier page.
    """

    folder: Path
    substitutions: dict[str, str]
    environ: dict[str, str] = field(default_factory=dict)
    output: str = ""
    _running: list[tuple[subprocess.Popen[bytes], str, Path]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Install the stand-ins and the package, and copy what a checkout has."""
        for name in (
            "bin",
            "srv",
            "etc/systemd/system",
            "etc/prometheus",
            "opt/webdata/bin",
            "work",
        ):
            (self.folder / name).mkdir(parents=True)
        shutil.copytree(DEPLOY, self.folder / "work" / "deploy")
        modules = {name: f"tests.deploy.stand_ins {name}" for name in STAND_INS}
        modules["webdata"] = "webdata_nb"
        for name, module in modules.items():
            script = self.folder / "bin" / name
            script.write_text(
                f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} -P -m {module} "$@"\n'
            )
            script.chmod(0o755)
        shutil.copy(self.folder / "bin" / "webdata", self.folder / "opt/webdata/bin/webdata")
        path = [str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environ |= {
            "PATH": os.pathsep.join(path),
            "HOME": str(self.folder / "home"),
            "ROOT": str(self.folder),
            "DASK_TEMPORARY_DIRECTORY": str(self.folder),
        }

    def follow(self, blocks: list[tuple[str, str]]) -> None:
        """Run the commands of a section in order; those that do not end go on until `stop`."""
        for language, text in blocks:
            if language == "sql":
                self.run(f"psql --quiet -v ON_ERROR_STOP=1 \"$WEBDATA_STORE\" <<'SQL'\n{text}SQL")
                continue
            for command in commands(text):
                self.run(self.on_this_machine(command))

    def on_this_machine(self, command: str) -> str:
        """Replace placeholders, ports, and paths of the machine."""
        if re.match(r"webdata serve (?!.*--port)", command):
            command = re.sub(r"\s*(#.*)?$", " --port 8000", command)
        for pattern, value in self.substitutions.items():
            command = re.sub(pattern, value, command)
        if key := API_KEY.findall(self.output):
            command = re.sub(r"=KEY\b", f"={key[-1]}", command)
        return MACHINE_PATH.sub(f"{self.folder}/", command)

    def run(self, command: str) -> str:
        """Run a command, and take over what it exports; return its standard output."""
        if LONG.match(command):
            self._launch(command)
            return ""
        variables = self.folder / "variables"
        ended = subprocess.run(
            ["bash", "-e", "-c", f"{command}\nenv --null > {variables}"],
            env=self.environ,
            cwd=self.folder / "work",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        pairs = (each.split("=", 1) for each in variables.read_text().split("\0") if each)
        self.environ = {name: value for name, value in pairs if name not in {"_", "SHLVL", "PWD"}}
        self.output += ended.stdout
        if "secrets new-key" in command and ended.stdout:
            self.substitutions[r"=SECRET_KEY\b"] = f"={ended.stdout.strip()}"
        return ended.stdout

    def _launch(self, command: str) -> None:
        path = self.folder / f"{len(self._running)}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                env=self.environ,
                cwd=self.folder / "work",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        self._running.append((process, command, path))
        deadline = time.monotonic() + COMMAND_S
        while not READY.search(path.read_text(errors="replace")):
            assert process.poll() is None, f"{command}\n{path.read_text(errors='replace')}"
            assert time.monotonic() < deadline, f"{command}\n{path.read_text(errors='replace')}"
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop all that runs, the last one first; it has to end by itself."""
        try:
            Systemd(self.folder).stop_all()
            while self._running:
                process, command, path = self._running.pop()
                process.terminate()
                code = process.wait(COMMAND_S)
                assert code == 0, f"{command}\n{path.read_text(errors='replace')}"
        finally:
            for process, _, _ in self._running:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
