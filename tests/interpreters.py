"""Runs the package on each declared Python: `python -m tests.interpreters`, as `.ci/run` does.

It needs the standard library, and pip's index. `python -m build` makes an sdist, and a wheel from
it. On every Python that the classifiers declare, except the one that runs this script, which the
whole suite is for: the wheel in a fresh environment without a compiler, `webdata demo`, and
`tests/interpreter_calls.py` under `-W error`. Each has to end with exit code 0 and an empty
standard error. The newest one runs the short suite of the README too, in the unpacked sdist; with
`--suite part` those of its tests that depend most on the interpreter. What the machine lacks is
said and left out. The version after the newest declared one is tried as well; what fails there is
only said, as nothing is claimed of it.

uv installs, since pip computes a minute for each environment; `.ci/run` has uv install too before
it runs the README's test command. `tests/first_ten_minutes.py` installs with pip as a user does.

`--lowest` does the same on the Python that runs this script, with the lowest versions that
`pyproject.toml` allows of all direct dependencies, and then runs the tests that use these most.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_CHECKOUT: Final = Path(__file__).resolve().parent.parent
_CLASSIFIER: Final = re.compile(r"Programming Language :: Python :: (3\.\d+)")
_README_TESTS: Final = re.compile(
    r"(?m)^python3 -m venv \.venv && \.venv/bin/pip (install .+) "
    r"&& \.venv/bin/python (-m pytest .+)$"
)
_TOOLS: Final = "tools"  # the environment of what builds and installs
_INSTALL_TIMEOUT_S: Final = 600.0
_SCRIPT_TIMEOUT_S: Final = 180.0
_SUITE_TIMEOUT_S: Final = 1800.0
_LOWEST_TIMEOUT_S: Final = 3600.0  # slow tests are among them
# uv fails where it would compile a dependency.
_WHEELS_ONLY: Final = ("--only-binary", ":all:")
_LOWEST_TESTS: Final = (
    "tests/client",
    "tests/contract",
    "tests/dask",
    "tests/frames",
    "tests/page",
    "tests/service/creatives",
    "tests/service/routes/test_crawl_order.py",
    "tests/service/signing",
    "tests/stores",
    "tests/test_private_members.py",
)
# What depends most on the interpreter: event loops, threads, signatures, compiled libraries.
_PART_OF_SUITE: Final = (
    *("-m", "not slow or smoke"),
    "tests/api/test_documentation_code.py",
    "tests/api/test_frame_accessor.py",
    "tests/api/test_sessions.py",
    "tests/api/test_signatures.py",
    "tests/client",
    "tests/frames",
    "tests/service/workers",
    "tests/test_bridge.py",
)


class _StepError(Exception):
    """A command failed, took too long, or wrote to standard error."""


class _Packages(NamedTuple):
    """The wheel, and the folder of the unpacked sdist from which it was built."""

    wheel: Path
    sources: Path


def declared_versions() -> list[str]:
    """Return the versions that the classifiers declare, the oldest first."""
    project = tomllib.loads((_CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    matches = map(_CLASSIFIER.fullmatch, project["classifiers"])
    return sorted((match[1] for match in matches if match), key=_sort_key)


def find_interpreter(version: str) -> Path | None:
    """Return an interpreter of a version, from pyenv or PATH; one that does not start is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = sorted(
        pyenv.glob(f"{version}.*/bin/python3"),
        key=lambda path: [int(number) for number in re.findall(r"\d+", path.parts[-3])],
        reverse=True,
    )
    if (in_path := shutil.which(f"python{version}")) is not None:
        candidates.append(Path(in_path))
    return next((path for path in candidates if _version_of(path) == version), None)


def readme_tests() -> tuple[list[str], list[str]]:
    """Return what the README's test command passes to pip, and to Python."""
    command = _README_TESTS.search((_CHECKOUT / "README.md").read_text("utf-8"))
    if command is None:
        raise _StepError("the README has no test command of the expected form")
    return command[1].replace('"', "").split(), command[2].split()


def main() -> int:
    """Run all steps; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", nargs="*", help="such as 3.13; by default all declared ones")
    parser.add_argument(
        "--suite",
        choices=("whole", "part", "none"),
        default="whole",
        help="how much of the short suite the newest Python runs (default: %(default)s)",
    )
    parser.add_argument(
        "--lowest", action="store_true", help="only this Python, with the lowest dependencies"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="interpreters-", ignore_cleanup_errors=True) as name:
        if chosen.lowest:
            return _check_lowest(Path(name))
        return _check_versions(chosen.versions, Path(name), chosen.suite)


def _check_versions(chosen: Sequence[str], folder: Path, suite: str) -> int:
    """Check the chosen versions, or all but this one; return the exit code."""
    own = f"3.{sys.version_info.minor}"
    declared = declared_versions()
    tried = [*declared, _next_version(declared[-1])]
    versions = chosen or [version for version in tried if version != own]
    found = {version: find_interpreter(version) for version in versions}
    for version, path in found.items():
        if path is None:
            print(f"Python {version}: not on this machine, so it is NOT TESTED", flush=True)
    checks = {version: path for version, path in found.items() if path is not None}
    if not checks:
        return 0
    packages = _build(folder)
    failures = _check_all(checks, packages.wheel, folder)
    newest = max({*checks, own} & {*declared}, key=_sort_key, default=own)
    if newest != own and newest not in failures and suite != "none":
        part = _PART_OF_SUITE if suite == "part" else ()
        try:
            _run_short_suite(newest, folder, packages.sources, part)
        except _StepError as error:
            failures[newest] = error
    for version, failure in failures.items():
        claim = "" if version in declared else ", which is not declared"
        print(f"Python {version}{claim}: FAILED: {failure}", flush=True)
    return bool(failures.keys() & set(declared))


def _build(folder: Path) -> _Packages:
    """Build the sdist, and the wheel from it; unpack the sdist."""
    python = _environment(_TOOLS, Path(sys.executable), folder)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _twice("pip install build uv", [*pip, "build", "uv"])
    dist = folder / "dist"
    _twice("python -m build", [python, "-m", "build", "--outdir", dist, _CHECKOUT])
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    _run(f"unpack {sdist.name}", ["tar", "-xzf", sdist], folder=folder)
    for built in (wheel, sdist):
        print(f"{built.name}: {built.stat().st_size / 1e6:.1f} MB", flush=True)
    return _Packages(wheel, folder / sdist.name.removesuffix(".tar.gz"))


def _check_all(
    interpreters: Mapping[str, Path], wheel: Path, folder: Path
) -> dict[str, _StepError]:
    """Check all versions at once, as most of it is waiting for downloads; return what failed."""
    failures = {}
    with ThreadPoolExecutor(len(interpreters)) as pool:
        checks = {
            version: pool.submit(_check, version, interpreter, wheel, folder)
            for version, interpreter in interpreters.items()
        }
    for version, check in checks.items():
        try:
            check.result()
        except _StepError as error:
            failures[version] = error
    return failures


def _check(version: str, interpreter: Path, wheel: Path, folder: Path) -> None:
    """Install the wheel, and run the tour and the calls of all functions."""
    python = _environment(version, interpreter, folder)
    title = f"Python {version}"
    install = [*_installer(python, folder), *_WHEELS_ONLY]
    _twice(f"{title}: uv pip install {wheel.name}", [*install, wheel])
    _run_demo(title, python, folder)
    _twice(f"{title}: uv pip install {wheel.name}[plot]", [*install, f"{wheel}[plot]"])
    _call_all_functions(title, python, folder)


def _check_lowest(folder: Path) -> int:
    """Check the lowest versions of the dependencies; return the exit code."""
    title = "lowest versions"
    try:
        sources = _build(folder).sources
        python = _environment("lowest", Path(sys.executable), folder)
        install = [*_installer(python, folder), *_WHEELS_ONLY, "--no-binary", "webdata-nb"]
        users = [*install, "--resolution", "lowest-direct", ".[all]"]
        _twice(f"{title}: uv pip install --resolution lowest-direct .[all]", users, folder=sources)
        uv = [_python(folder, _TOOLS), "-m", "uv", "pip"]
        frozen, _ = _run("uv pip freeze", [*uv, "freeze", "--quiet", "--python", python])
        pins = [line for line in frozen.splitlines() if not line.startswith("webdata-nb")]
        print("\n".join(pins), flush=True)
        _run_demo(title, python, folder)
        _call_all_functions(title, python, folder)
        _twice(f"{title}: uv pip install .[test]", [*install, "-e", ".[test]"], folder=sources)
        # The libraries of the tests may need newer versions than the package does.
        _twice(f"{title}: the same versions again", [*install, "--no-deps", *pins])
        tests = ["-m", "pytest", "-n", "logical", "--hypothesis-seed=0", *_LOWEST_TESTS]
        command = [python, *tests]
        _run(f"{title}: tests", command, folder=sources, timeout_s=_LOWEST_TIMEOUT_S, quiet=False)
    except _StepError as error:
        print(f"{title}: FAILED: {error}", flush=True)
        return 1
    return 0


def _run_demo(title: str, python: Path, folder: Path) -> None:
    _run_silent(f"{title}: webdata demo", [python.parent / "webdata", "demo"], folder)


def _call_all_functions(title: str, python: Path, folder: Path) -> None:
    # Its first import writes to standard error if it takes long to list the fonts.
    _run(f"{title}: list the fonts", [python, "-c", "import matplotlib.font_manager"])
    calls = _CHECKOUT / "tests" / "interpreter_calls.py"
    command = [python, "-P", "-W", "error", calls]
    _run_silent(f"{title}: call all public functions with -W error", command, folder)


def _run_short_suite(version: str, folder: Path, sources: Path, part: Sequence[str]) -> None:
    """Run the README's test command in the unpacked sdist, with the wheel's environment."""
    install, tests = readme_tests()
    python = _python(folder, version)
    command = [*_installer(python, folder), *install[1:]]
    _twice(f"Python {version}: uv pip {' '.join(install)}", command, folder=sources)
    # Once, what each of the parallel processes would compile: uv compiles nothing.
    collect = [python, "-m", "pytest", "--collect-only", "--quiet", *part]
    _run(f"Python {version}: collect the tests", collect, folder=sources)
    title = f"Python {version}: python {' '.join(tests)}"
    # As in the full suite of CI, the examples of Hypothesis are the same in each run.
    command = [python, *tests, "--hypothesis-seed=0", *part]
    _run(title, command, folder=sources, timeout_s=_SUITE_TIMEOUT_S, quiet=False)


def _environment(name: str, interpreter: Path, folder: Path) -> Path:
    """Make a virtual environment; return its interpreter."""
    _run(f"new environment, {interpreter}", [interpreter, "-m", "venv", folder / name])
    return _python(folder, name)


def _python(folder: Path, name: str) -> Path:
    return folder / name / "bin" / "python"


def _installer(python: Path, folder: Path) -> list[object]:
    """Return the command that installs into the environment of an interpreter."""
    return [_python(folder, _TOOLS), "-m", "uv", "pip", "install", "--quiet", "--python", python]


def _twice(title: str, command: Sequence[object], *, folder: Path = _CHECKOUT) -> None:
    """Run a command that downloads; a second try, as a download may fail once."""
    try:
        _run(title, command, folder=folder)
    except _StepError:
        time.sleep(5)
        _run(f"{title}, again", command, folder=folder)


def _run_silent(title: str, command: Sequence[object], folder: Path) -> None:
    """Run a command that may not write to standard error."""
    _, err = _run(title, command, folder=folder, timeout_s=_SCRIPT_TIMEOUT_S)
    if err:
        raise _StepError(f"{title}: standard error is not empty:\n{err}")


def _run(
    title: str,
    command: Sequence[object],
    *,
    folder: Path | None = None,
    timeout_s: float = _INSTALL_TIMEOUT_S,
    quiet: bool = True,
) -> tuple[str, str]:
    """Run a command with a bound on its time; return what it printed, if that is not shown."""
    began = time.monotonic()
    pipe = subprocess.PIPE if quiet else None
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        cwd=folder,
        env=_environ(),
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise _StepError(f"no end after {timeout_s:.0f} s: {title}\n{out}{err}") from None
    if process.returncode:
        raise _StepError(f"exit code {process.returncode}: {title}\n{out or ''}{err or ''}")
    print(f"{title}: {time.monotonic() - began:.0f} s", flush=True)
    return out or "", err or ""


def _environ() -> dict[str, str]:
    """Return this environment without what changes Python, the package or the choice of tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"CI", "VIRTUAL_ENV"} and not name.startswith(("PYTHON", "WEBDATA_"))
    }
    if (corpora := os.environ.get("WEBDATA_CORPORA")) is not None:
        kept["WEBDATA_CORPORA"] = corpora
    return kept


def _version_of(interpreter: Path) -> str | None:
    """Ask an interpreter for its version: a shim of pyenv exists also for one that is not set."""
    code = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [str(interpreter), "-c", code], check=True, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _next_version(version: str) -> str:
    major, minor = _sort_key(version)
    return f"{major}.{minor + 1}"


def _sort_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


if __name__ == "__main__":
    sys.exit(main())
