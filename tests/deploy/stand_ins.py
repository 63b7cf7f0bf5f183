"""Stands in for `systemctl`, `docker`, `pip` and others where guides are followed.

systemd wants to be process 1 and Docker wants images, so neither runs beside the tests. What the
units start is real: their ExecStart and ExecStartPost, with their environment file alone. The
paths of the machine, such as /etc/webdata, are in the folder that ROOT names.

python -m tests.deploy.stand_ins systemctl enable --now webdata@8001
"""

from __future__ import annotations

import configparser
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import psutil
import yaml  # type: ignore[import-untyped]

CHECKOUT: Final = Path(__file__).resolve().parents[2]
STOP_S: Final = 60.0


class Systemd:
    """Starts and stops the units in `etc/systemd/system` of a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def systemctl(self, words: list[str]) -> int:
        """Start, restart or reload units."""
        verb, *names = [word for word in words if not word.startswith("--")]
        if verb == "reload":
            return 0 if names == ["prometheus"] else 1
        if verb not in {"enable", "start", "restart"} or (
            verb == "enable" and "--now" not in words
        ):
            raise ValueError(f"systemctl {verb}")
        for name in names:
            if verb == "restart":
                self.stop(name)
            if code := self._start(name):
                return code
        return 0

    def run(self, words: list[str]) -> int:
        """Run a command with the environment file of its properties, and wait for its end."""
        properties = [word.removeprefix("--property=") for word in words if word.startswith("--p")]
        values = dict(each.split("=", 1) for each in properties if "=" in each)
        command = words[next(i for i, word in enumerate(words) if not word.startswith("--")) :]
        return subprocess.run(
            self._words(shlex.join(command)), env=self._environ(values), check=False, timeout=STOP_S
        ).returncode

    def stop(self, name: str) -> None:
        """Stop a unit, if it runs; it has to end by itself."""
        file = self._process_file(name)
        if file.exists():
            process = psutil.Process(int(file.read_text()))
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S)
            file.unlink()

    def stop_all(self) -> None:
        """Stop all units."""
        for file in self._root.glob("run/*.pid"):
            self.stop(file.stem)

    def _start(self, name: str) -> int:
        template, instance = name.split("@")
        unit = configparser.RawConfigParser(strict=True, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        path = self._root / "etc/systemd/system" / f"{template}@.service"
        unit.read_string(path.read_text("utf-8").replace("%i", instance).replace("%H", "host"))
        service = unit["Service"]
        for folder in service["StateDirectory"].split():
            (self._root / "var/lib" / folder).mkdir(parents=True, mode=0o700, exist_ok=True)
        with (self._root / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self._words(service["ExecStart"]),
                env=self._environ(service),
                cwd=self._words(service["WorkingDirectory"])[0],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        self._process_file(name).parent.mkdir(exist_ok=True)
        self._process_file(name).write_text(str(process.pid))
        code = subprocess.run(shlex.split(service["ExecStartPost"]), check=False).returncode
        if code:
            process.kill()
            process.wait()
            self._process_file(name).unlink()
            sys.stderr.write((self._root / f"{name}.log").read_text())
        return code

    def _process_file(self, name: str) -> Path:
        return self._root / "run" / f"{name}.pid"

    def _words(self, command: str) -> list[str]:
        moved = command.replace("%S", str(self._root / "var/lib"))
        return shlex.split(re.sub(r"(?<!\S)/(?=opt/)", f"{self._root}/", moved))

    def _environ(self, properties: Any) -> dict[str, str]:
        """Return what the process of a unit sees: a path, and its environment file."""
        # The command line of a guide names the moved file, a unit the one of the machine.
        path = properties["EnvironmentFile"].removeprefix(str(self._root))
        file = self._root / path.removeprefix("/")
        lines = [line for line in file.read_text().splitlines() if line]
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": "/nonexistent",
            **dict(x.split("=", 1) for x in lines),
        }


def docker(words: list[str]) -> int:
    """Check that a command of Compose names services of its file, or that an image has a file."""
    if words[0] == "build":
        return 0 if Path(words[words.index("-f") + 1]).exists() else 1
    compose, option, file, verb, *rest = words
    services = set(yaml.safe_load(Path(file).read_text("utf-8"))["services"])
    valued = {"--scale"}
    named = [
        word.partition("=")[0]
        for before, word in zip([verb, *rest], rest, strict=False)
        if before in valued or not word.startswith("--")
    ]
    if verb == "exec":
        named = named[:1]
    known = (compose, option) == ("compose", "-f") and verb in {"up", "build", "exec"}
    return 0 if known and set(named) <= services else 1


def pip(words: list[str]) -> int:
    """Check that the package has the extras; the environment of the tests has them installed."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    [match] = [re.fullmatch(r"webdata_nb\[([a-z,]+)\]", word) for word in words[1:]]
    asked = set(match[1].split(",")) if match else {"?"}
    return 0 if words[0] == "install" and asked <= set(project["optional-dependencies"]) else 1


def useradd(words: list[str]) -> int:
    """Check the options."""
    text = subprocess.run(
        ["/usr/sbin/useradd", "--help"], capture_output=True, text=True, check=True
    ).stdout
    return 0 if all(word in text for word in words if word.startswith("--")) else 1


def main(name: str, *words: str) -> int:
    systemd = Systemd(Path(os.environ["ROOT"]))
    programs = {
        "systemctl": systemd.systemctl,
        "systemd-run": systemd.run,
        "docker": docker,
        "pip": pip,
        "useradd": useradd,
    }
    return programs[name](list(words))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
