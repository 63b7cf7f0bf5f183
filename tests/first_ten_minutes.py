"""The first ten minutes of a new user: `python -m tests.first_ten_minutes 3.12`.

It needs the standard library, and pip's index. As root on Linux it makes a user whose home and
temporary folders are empty, in a mount namespace of its own; otherwise it uses an empty home. There
it types the commands of the README: install, `webdata demo`, the tutorial, three recipes, a team's
service with an account, uninstall. It prints what each command printed and how long it took. The
exit code is 1 if a command failed, or if files are left that the README does not name.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interpreters import find_interpreter

_CHECKOUT: Final = Path(__file__).resolve().parent.parent
_INSIDE: Final = "FIRST_TEN_MINUTES_INSIDE"
_USER: Final = "webdata-first"
_ADDRESS: Final = "https://example.com/"
_CODE: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RECIPES: Final = ("broken-links", "price-table", "compare-crawls")
_PORT: Final = 8765
_STEP_TIMEOUT_S: Final = 900.0
# Runs cells as an interactive interpreter does: it prints the value of each expression.
_CELLS: Final = """
import ast, sys
names = {"__name__": "__main__"}
for statement in ast.parse(sys.stdin.read()).body:
    print(">>>", ast.unparse(statement), flush=True)
    if isinstance(statement, ast.Expr):
        value = eval(compile(ast.Expression(statement.value), "<cell>", "eval"), names)
        if value is not None:
            print(value, flush=True)
    else:
        exec(compile(ast.Module([statement], []), "<cell>", "exec"), names)
"""


class _StepError(Exception):
    """A command failed."""


class Newcomer:
    """Types commands in an empty home, and prints what they print."""

    def __init__(self, home: Path, folder: Path, user: str | None) -> None:
        self.home, self.folder, self.user = home, folder, user
        self.times: list[tuple[str, float]] = []
        self._environ = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PIP_NO_CACHE_DIR": "1",
            # What pip needs to reach its index from this machine.
            **{
                name: value
                for name, value in os.environ.items()
                if name.startswith(("PIP_", "SSL_CERT")) or name == "TMPDIR"
            },
        }

    def type(self, step: str, command: str, *, text: str = "", **environ: str) -> str:
        """Run a command of the shell; return what it printed."""
        print(f"\n$ {command}", flush=True)
        began = time.monotonic()
        done = subprocess.run(
            self._words(command, environ),
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            timeout=_STEP_TIMEOUT_S,
            check=False,
        )
        seconds = time.monotonic() - began
        self.times.append((step, seconds))
        print(f"{done.stdout.rstrip()}\n[{step}: {seconds:.1f} s]", flush=True)
        if done.returncode:
            raise _StepError(f"{step}: exit code {done.returncode}: {command}")
        return done.stdout

    @contextmanager
    def running(self, command: str, sign: str) -> Iterator[None]:
        """Run a command until the block ends; its output has `sign` once it is ready."""
        print(f"\n$ {command}", flush=True)
        began = time.monotonic()
        with subprocess.Popen(
            self._words(command, {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        ) as process:
            try:
                for line in process.stdout or ():
                    print(line, end="", flush=True)
                    if sign in line:
                        break
                else:
                    raise _StepError(f"it ended: {command}")
                self.times.append(("start the service", time.monotonic() - began))
                yield
            finally:
                began = time.monotonic()
                os.killpg(process.pid, signal.SIGINT)
                rest, _ = process.communicate(timeout=60)
                print(f"^C\n{rest.rstrip()}", flush=True)
                self.times.append(("stop the service", time.monotonic() - began))

    def _words(self, command: str, environ: dict[str, str]) -> Sequence[str]:
        pairs = [f"{name}={value}" for name, value in {**self._environ, **environ}.items()]
        as_user = ["runuser", "-u", self.user, "--"] if self.user else []
        return [*as_user, "env", "-i", *pairs, "bash", "-c", command]


def main() -> int:
    """Run the steps on each chosen Python; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="such as 3.12")
    version = parser.parse_args().version
    interpreter = find_interpreter(version)
    if interpreter is None:
        print(f"Python {version} is not on this machine")
        return 1
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("unshare") is not None
    if is_root and _INSIDE not in os.environ:
        with tempfile.TemporaryDirectory() as built:
            environ = {**os.environ, _INSIDE: str(_source_archive(Path(built)))}
            program = [sys.executable, "-m", "tests.first_ten_minutes", version]
            command = ["unshare", "--mount", *program]
            return subprocess.run(command, cwd=_CHECKOUT, env=environ, check=False).returncode
    if is_root:
        return _as_new_user(interpreter, Path(os.environ[_INSIDE]))
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as built:
        home, temporary = Path(name) / "home", Path(name) / "tmp"
        home.mkdir()
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        archive = _source_archive(Path(built))
        return _ten_minutes(home, archive, interpreter, [home, temporary], None)


def _source_archive(folder: Path) -> Path:
    """Build the source distribution; return its file."""
    _quiet(sys.executable, "-m", "venv", folder / "build")
    python = folder / "build" / "bin" / "python"
    _quiet(python, "-m", "pip", "install", "--quiet", "hatchling")
    _quiet(python, "-m", "hatchling", "build", "-t", "sdist", "-d", folder / "dist")
    [archive] = (folder / "dist").glob("*.tar.gz")
    return archive


def _as_new_user(interpreter: Path, archive: Path) -> int:
    """Hide the temporary folders and the homes of this machine behind empty ones."""
    source = archive.read_bytes()
    _quiet("mount", "--make-rprivate", "/")
    _quiet("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    # Interpreters below the home of root stay where they are, and nothing else there.
    own = Path.home()
    prefixes = {interpreter.resolve().parent.parent, Path(sys.base_prefix).resolve()}
    moved = {Path(f"/mnt/python{n}"): each for n, each in enumerate(prefixes)}
    for place, prefix in moved.items():
        place.mkdir()
        _quiet("mount", "--bind", prefix, place)
    for path in (own, *map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/home"))):
        mode = "mode=1777" if path.name in {"tmp", "shm"} else "mode=755"
        _quiet("mount", "-t", "tmpfs", "-o", mode, "tmpfs", path)
    for place, prefix in moved.items():
        if prefix.is_relative_to(own):
            prefix.mkdir(parents=True)
            _quiet("mount", "--bind", place, prefix)
    home = Path("/home") / _USER
    users = [entry.pw_name for entry in pwd.getpwall()]
    if _USER not in users:
        _quiet("useradd", "--no-create-home", "--home-dir", home, "--shell", "/bin/bash", _USER)
    home.mkdir(mode=0o700)
    shutil.chown(home, _USER, _USER)
    copy = Path("/mnt") / archive.name
    copy.write_bytes(source)
    roots = [home, Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]
    try:
        return _ten_minutes(home, copy, interpreter.resolve(), roots, _USER)
    finally:
        subprocess.run(["userdel", _USER], check=False, capture_output=True)


def _ten_minutes(
    home: Path, archive: Path, interpreter: Path, roots: Sequence[Path], user: str | None
) -> int:
    """Type all commands; return the exit code."""
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    [folder] = [path for path in home.iterdir() if path.is_dir()]
    if user is not None:
        _quiet("chown", "-R", f"{user}:{user}", folder)
    person = Newcomer(home, folder, user)
    readme = (folder / "README.md").read_text("utf-8")
    before = _files(roots)
    try:
        _type_all(person, interpreter, readme)
        _check_left(person, before, roots, readme)
    except _StepError as error:
        print(f"FAILED: {error}")
        return 1
    finally:
        print(f"\n{'step':28} {'s':>7}")
        for step, seconds in person.times:
            print(f"{step:28} {seconds:7.1f}")
        print(f"{'all':28} {sum(seconds for _, seconds in person.times):7.1f}")
    return 0


def _type_all(person: Newcomer, interpreter: Path, readme: str) -> None:
    install = re.search(
        r"^python3 -m venv \.venv && (\S+pip install \.) && (.+demo)$", readme, re.MULTILINE
    )
    if install is None:
        raise _StepError("the README has no install command of the expected form")
    person.type("venv", f"{shlex.quote(str(interpreter))} -m venv .venv")
    person.type("install", f"{install[1]} --quiet")
    person.type("demo", install[2])
    person.type("install for the tutorial", '.venv/bin/pip install --quiet ".[plot]"')
    tutorial = _code(person.folder / "docs" / "tutorial.md")
    person.type("tutorial", f".venv/bin/python -c {shlex.quote(_CELLS)}", text=tutorial)
    sample = "from webdata_nb.demo.server import SampleSite\nsite = SampleSite().start()\n"
    for name in _RECIPES:
        code = _code(person.folder / "docs" / "recipes" / f"{name}.md")
        code = re.sub(rf'"{_ADDRESS}([^"]*)"', r'site.url + "\1"', code)
        cells = f"{sample}{code}\nsite.close()\n"
        person.type(f"recipe {name}", f".venv/bin/python -c {shlex.quote(_CELLS)}", text=cells)
    _serve_a_team(person, sample)
    person.type("uninstall: stop", ".venv/bin/webdata stop")
    person.type("uninstall: pip", ".venv/bin/pip uninstall --yes webdata_nb")


def _serve_a_team(person: Newcomer, sample: str) -> None:
    made = person.type(
        "create an account", ".venv/bin/webdata keys create --name alice --data-dir ~/team"
    )
    key = next(word for word in made.split() if word.startswith("wd"))
    serve = (
        f".venv/bin/webdata serve --mode team --port {_PORT} --data-dir ~/team"
        " --allow-network 127.0.0.0/8"
    )
    url = f"http://127.0.0.1:{_PORT}"
    recipe = (
        "import os\nfrom webdata_nb import connect, crawl_df, usage_df\n"
        f'connect(base_url="{url}", api_key=os.environ["ALICE_KEY"])\n'
        "pages = crawl_df(site.url)\npages.webdata.line\nusage_df()\nsite.close()\n"
    )
    with person.running(f"exec {serve}", " serves http"):
        environ = {"WEBDATA_BASE_URL": url, "WEBDATA_API_KEY": key}
        person.type("jobs of the account", ".venv/bin/webdata jobs", **environ)
        words = f".venv/bin/python -c {shlex.quote(_CELLS)}"
        person.type("crawl of the account", words, text=sample + recipe, ALICE_KEY=key)


def _code(page: Path) -> str:
    return "\n".join(_CODE.findall(page.read_text("utf-8")))


def _check_left(
    person: Newcomer, before: dict[Path, int], roots: Sequence[Path], readme: str
) -> None:
    """Print what is left outside the checkout; all of it must be named by the README."""
    named = [person.home / name for name in re.findall(r"`~/([^`]+)`", readme)]
    named += [person.home / "team", person.folder]  # typed by the person
    left = [path for path in _files(roots) if path not in before]
    strangers = [path for path in left if not any(path.is_relative_to(each) for each in named)]
    print("\nleft outside the checkout:")
    for each in named:
        size = sum(path.stat().st_size for path in left if path.is_relative_to(each))
        if size and each != person.folder:
            print(f"  {each}: {size:,} bytes")
    for path in strangers:
        print(f"  {path}: NOT NAMED")
    if strangers:
        raise _StepError(f"the README does not name {len(strangers)} files that are left")


def _files(roots: Sequence[Path]) -> dict[Path, int]:
    return {path: 0 for root in roots for path in root.rglob("*") if path.is_file()}


def _quiet(*words: object) -> None:
    done = subprocess.run(
        [str(word) for word in words], cwd=_CHECKOUT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise _StepError(f"{shlex.join(map(str, words))}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
