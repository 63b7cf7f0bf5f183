"""What the wheel and the sdist hold, and how their data agree with the rest of the project."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement

import webdata_nb
from tests.requirements import require_module

CHECKOUT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = CHECKOUT / "webdata_nb"
PROJECT: Final[dict[str, Any]] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))[
    "project"
]
DIST_INFO: Final = f"webdata_nb-{webdata_nb.__version__}.dist-info/"
MAX_WHEEL_BYTES: Final = 2_500_000
MAX_FILE_BYTES: Final = 300_000
SWAGGER_UI: Final = "webdata_nb/service/routes/swagger_ui/swagger-ui-bundle.js"
NOT_FOR_USERS: Final = {"all", "docs", "test"}
# What `python -m build` calls, without its environments, which need a package index.
HOOK: Final = "import sys; from hatchling import build; getattr(build, sys.argv[1])(sys.argv[2])"


class Packages(NamedTuple):
    """The two files that a release consists of, and the unpacked sdist."""

    sdist: Path
    wheel: Path
    unpacked: Path


def run_hook(name: str, folder: Path, target: Path) -> Path:
    """Build an sdist or a wheel of a folder."""
    command = [sys.executable, "-c", HOOK, name, str(target)]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [built] = target.glob("*.whl" if name == "build_wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    require_module("hatchling")
    target = tmp_path_factory.mktemp("dist")
    sdist = run_hook("build_sdist", CHECKOUT, target)
    subprocess.run(["tar", "-xzf", str(sdist)], cwd=target, check=True)
    unpacked = target / sdist.name.removesuffix(".tar.gz")
    return Packages(sdist, run_hook("build_wheel", unpacked, target), unpacked)


@pytest.fixture(scope="module")
def metadata(packages: Packages) -> Message:
    with zipfile.ZipFile(packages.wheel) as archive:
        return message_from_bytes(archive.read(f"{DIST_INFO}METADATA"))


def files_below(folder: Path) -> set[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path for path in files if "__pycache__" not in path.parts}


def user_extras() -> dict[str, list[str]]:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    return {name: lines for name, lines in extras.items() if name not in NOT_FOR_USERS}


def test_wheel_holds_the_package_with_its_data_files_and_nothing_else(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as archive:
        names = set(archive.namelist())
    expected = {path.relative_to(CHECKOUT).as_posix() for path in files_below(PACKAGE)}
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert names == expected | {DIST_INFO + name for name in about}
    assert "webdata_nb/py.typed" in names


def test_wheel_is_small(packages: Packages) -> None:
    assert packages.wheel.stat().st_size < MAX_WHEEL_BYTES
    with zipfile.ZipFile(packages.wheel) as archive:
        sizes = {each.filename: each.file_size for each in archive.infolist()}
    assert [name for name, size in sizes.items() if size > MAX_FILE_BYTES] == [SWAGGER_UI]
    site = [size for name, size in sizes.items() if name.startswith("webdata_nb/demo/")]
    assert 0 < sum(site) < MAX_FILE_BYTES


def test_wheel_is_the_same_for_every_python(packages: Packages) -> None:
    assert packages.wheel.name.endswith("-py3-none-any.whl")


def test_checkout_and_sdist_give_the_same_wheel(packages: Packages, tmp_path: Path) -> None:
    wheel = run_hook("build_wheel", CHECKOUT, tmp_path)
    assert wheel.read_bytes() == packages.wheel.read_bytes()


@pytest.mark.slow
def test_sdist_gives_the_same_sdist(packages: Packages, tmp_path: Path) -> None:
    again = run_hook("build_sdist", packages.unpacked, tmp_path)
    with tarfile.open(packages.sdist) as first, tarfile.open(again) as second:
        assert sorted(first.getnames()) == sorted(second.getnames())


def test_sdist_holds_every_file_under_version_control(packages: Packages) -> None:
    if not (CHECKOUT / ".git").exists():
        pytest.skip("this is no checkout of the repository")
    listing = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, check=True, capture_output=True)
    tracked = {CHECKOUT / name for name in listing.stdout.decode().splitlines()}
    kept = {path.relative_to(CHECKOUT).as_posix() for path in tracked if path.is_file()}
    names = {
        path.relative_to(packages.unpacked).as_posix() for path in files_below(packages.unpacked)
    }
    assert kept - names == set()


def test_metadata_is_that_of_the_project(metadata: Message) -> None:
    assert metadata["Version"] == webdata_nb.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Summary"] == PROJECT["description"]
    assert metadata["Author"] == "The webdata_nb developers"
    assert str(metadata.get_payload()) == (CHECKOUT / "README.md").read_text("utf-8")
    assert metadata["Project-URL"] is None, "the project has no address yet"


def test_oldest_declared_python_is_the_required_one() -> None:
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_extra_all_has_all_extras_for_users() -> None:
    [line] = PROJECT["optional-dependencies"]["all"]
    assert Requirement(line).extras == set(user_extras())


def test_a_dependency_has_one_range_wherever_it_is_named() -> None:
    ranges: dict[str, set[str]] = {}
    for lines in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]:
        for requirement in map(Requirement, lines):
            ranges.setdefault(requirement.name, set()).add(str(requirement.specifier))
    assert {name: each for name, each in ranges.items() if len(each) > 1} == {}


def test_citation_is_that_of_the_release() -> None:
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text("utf-8"))
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == webdata_nb.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["abstract"] == PROJECT["description"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation["authors"] == PROJECT["authors"]
