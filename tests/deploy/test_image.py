"""The commands of the Dockerfile, run on this machine with a read-only root file system."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.dockerfile import Instruction, stages
from tests.deploy.proxy import DEPLOY
from tests.deploy.test_files import copied
from tests.ports import free_port
from tests.postgres import PostgresServer
from tests.shell import CHECKOUT
from webdata_nb.service.encryption import new_key

pytestmark = pytest.mark.slow

BUILD, FINAL = stages(DEPLOY / "Dockerfile")
ROOT: Final = 0
DEPENDENCIES: Final = sysconfig.get_path("purelib")
# What a container has: a root file system that is read-only, /tmp of its own, and a user without
# any right of root. The first argument is the volume, the second the folder of the dependencies,
# which may be below the other /tmp.
CONFINE: Final = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
exec 9<"$2"
mount -t tmpfs -o mode=1777 tmpfs /tmp
if [ ! -d "$2" ]; then
  mkdir -p "$2"
  mount --no-canonicalize --bind /proc/self/fd/9 "$2"
fi
exec 9<&-
mount -o remount,bind,ro /
cd "$1"
shift 2
exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all \
  --inh-caps=-all "$@"
"""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """The folders of an image: its environment and the volume with the data."""

    root: Path
    port: int
    metrics_port: int

    def on_this_machine(self, text: str) -> str:
        """Replace the paths and the ports of the image."""
        moved = text.replace("/opt/webdata", str(self.root / "environment"))
        moved = moved.replace("/var/lib/webdata", str(self.data))
        return moved.replace("8000", str(self.port)).replace("9100", str(self.metrics_port))

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def log(self) -> Path:
        """What the container's command printed."""
        return self.root / "log"

    def has_started(self) -> bool:
        """Return whether the container's command said that it serves, or runs jobs."""
        text = self.log.read_text()
        return f"serves http://0.0.0.0:{self.port}" in text or "runs jobs as" in text

    def command(self, keyword: str) -> list[str]:
        """Return the words of an instruction of the final stage."""
        found = next(each for each in FINAL if each.keyword == keyword)
        return [self.on_this_machine(word) for word in found.words]

    def environ(self, **environ: str) -> dict[str, str]:
        """Return the variables of a container: those of ENV and of the caller alone."""
        text = next(each.text for each in FINAL if each.keyword == "ENV")
        pairs = (pair.split("=") for pair in self.on_this_machine(text).split())
        values = {name: value.replace("$PATH", "/usr/sbin:/usr/bin:/bin") for name, value in pairs}
        return {"HOME": "/nonexistent", **values, **environ}

    def confined(self, *words: str) -> list[str]:
        """Return a command that runs as in a container; an ordinary user stays who it is."""
        if os.geteuid() != ROOT:
            return list(words)
        places = (str(self.data), DEPENDENCIES)
        return ["unshare", "--mount", "sh", "-c", CONFINE, "confine", *places, *words]

    @contextmanager
    def run(
        self, command: list[str] | None = None, **environ: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Run a command of the container, by default the image's, until the block ends."""
        words = self.confined(
            *self.command("ENTRYPOINT"),
            *(map(self.on_this_machine, command) if command else self.command("CMD")),
        )
        with (
            self.log.open("w") as log,
            subprocess.Popen(
                words,
                env=self.environ(**environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()


def run_build(instruction: Instruction, image: BuiltImage) -> None:
    subprocess.run(
        ["/bin/sh", "-e", "-c", image.on_this_machine(instruction.text)],
        cwd=image.root / "source",
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=True,
        timeout=280,
    )


@pytest.fixture(scope="module")
def image() -> Iterator[BuiltImage]:
    """Run the commands of the build stage, in a folder that every user may read."""
    root = Path(tempfile.mkdtemp(prefix="webdata-image-", dir="/var/tmp"))
    root.chmod(0o755)
    built = BuiltImage(root, free_port(), free_port())
    try:
        for name in copied():
            source, target = CHECKOUT / name, root / "source" / name
            target.parent.mkdir(exist_ok=True, parents=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        create, install = (each for each in BUILD if each.keyword == "RUN")
        run_build(create, built)
        # The dependencies of the tests' environment: pip finds them installed, and adds the wheel.
        [packages] = (root / "environment").glob("lib/python*/site-packages")
        (packages / "dependencies.pth").write_text(DEPENDENCIES)
        run_build(install, built)
        built.data.mkdir(mode=0o700)
        if os.geteuid() == ROOT:
            shutil.chown(built.data, "nobody", "nogroup")
        yield built
    finally:
        shutil.rmtree(root, ignore_errors=True)


def health(image: BuiltImage, check: list[str] | None = None) -> int:
    """Return the exit code of a health check, by default the image's."""
    test = map(image.on_this_machine, check) if check else image.command("HEALTHCHECK")
    words = image.confined(*test)
    environ = image.environ()
    return subprocess.run(
        words, env=environ, check=False, timeout=60, capture_output=True
    ).returncode


def test_wheel_is_installed_with_its_data_files(image: BuiltImage) -> None:
    code = "import webdata_nb.service.app as app; print(app.__file__)"
    python = image.root / "environment" / "bin" / "python"
    output = subprocess.run(
        [python, "-I", "-c", code], capture_output=True, text=True, check=True, cwd="/", timeout=120
    )
    assert output.stdout.startswith(str(image.root / "environment"))


@pytest.mark.parametrize("name", ["image", "replica-1", "worker"])
def test_container_runs_checks_its_health_and_stops(
    image: BuiltImage, postgres_server: PostgresServer, name: str
) -> None:
    """The commands and health checks are those of the image, and of the services of Compose."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    service = services.get(name, {})
    check = service.get("healthcheck", {}).get("test", [])[1:]
    assert health(image, check) != 0
    environ = {"WEBDATA_STORE": postgres_server.new_schema(), "WEBDATA_SECRET_KEY": new_key()}
    with image.run(service.get("command"), **environ) as process:
        deadline = time.monotonic() + 120
        # As the container's runtime does. Another process of this machine may have the port.
        while not image.has_started() or health(image, check) != 0:
            assert process.poll() is None, image.log.read_text()
            assert time.monotonic() < deadline, image.log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, image.log.read_text()
    assert health(image, check) != 0
    assert {path.name for path in image.root.iterdir()} == {"source", "environment", "data", "log"}


def test_container_writes_nothing_outside_its_volume(image: BuiltImage) -> None:
    if os.geteuid() != ROOT:
        pytest.skip("only root can make a file system read-only")
    for folder in (image.root, Path("/var/tmp"), Path("/work") if Path("/work").exists() else "/"):
        words = image.confined("touch", f"{folder}/probe")
        assert subprocess.run(words, check=False, capture_output=True).returncode != 0
    for folder in (image.data, Path("/tmp")):
        words = image.confined("touch", f"{folder}/probe")
        assert subprocess.run(words, check=False, capture_output=True).returncode == 0
    assert not Path("/tmp/probe").exists()
