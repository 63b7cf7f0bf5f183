from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.site.nginx import NginxSite
from tests.site.static import StaticSite

if TYPE_CHECKING:
    from tests.site.fixtures import Docs


class ServiceProcess(Protocol):
    url: str


SERVERS: list[Callable[[Path], AbstractContextManager[ServiceProcess]]] = [NginxSite, StaticSite]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<title>Front</title>")
    (tmp_path / "notes.txt").write_text("Plain notes.")
    (tmp_path / "tool.py").write_text("print()")
    (tmp_path / "empty").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text("<title>Sub</title>")
    (tmp_path / "linked.html").symlink_to(tmp_path / "index.html")
    return tmp_path


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("", "text/html"),
        ("linked.html", "text/html"),
        ("sub", "text/html"),
        ("notes.txt", "text/plain"),
        ("tool.py", "application/octet-stream"),
    ],
)
def test_files_come_with_their_types(
    server: Callable[[Path], AbstractContextManager[ServiceProcess]],
    folder: Path,
    path: str,
    media_type: str,
) -> None:
    with server(folder) as site, urlopen(site.url + path) as answer:
        assert (answer.status, answer.headers.get_content_type()) == (200, media_type)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(("path", "status"), [("gone.html", 404), ("empty/", 403)])
def test_what_is_not_there_has_a_status(
    server: Callable[[Path], AbstractContextManager[ServiceProcess]],
    folder: Path,
    path: str,
    status: int,
) -> None:
    with server(folder) as site:
        with pytest.raises(HTTPError) as failure:
            urlopen(site.url + path)
        failure.value.close()
        assert failure.value.code == status


@pytest.mark.parametrize(("gzip", "coding"), [(False, None), (True, "gzip")])
def test_nginx_compresses_only_when_told_to(
    folder: Path, coding: str | None, *, gzip: bool
) -> None:
    (folder / "long.html").write_text("<p>long</p>" * 1000)
    with NginxSite(folder, gzip=gzip) as site:
        request = Request(site.url + "long.html", headers={"Accept-Encoding": "gzip"})
        with urlopen(request) as answer:
            assert answer.headers.get("Content-Encoding") == coding


def refuses(url: str) -> bool:
    """Say whether nobody listens at a URL any more."""
    address = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname or "", address.port or 0)) != 0


def test_nginx_ends_and_leaves_no_folder(folder: Path) -> None:
    with NginxSite(folder) as site:
        prefix = site._prefix
        assert prefix is not None
        assert prefix.is_dir()
        assert not refuses(site.url)
    assert not prefix.exists()
    assert refuses(site.url)


def test_nginx_ends_when_its_test_process_is_killed(folder: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.site.nginx import NginxSite\n"
        "with NginxSite(Path(sys.argv[1])) as site:\n"
        "    print(site.url, site._prefix, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    ) as parent:
        assert parent.stdout is not None
        url, prefix = parent.stdout.readline().split()
        assert not refuses(url)
        parent.kill()
    end = time.monotonic() + 60
    while (Path(prefix).exists() or not refuses(url)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(prefix).exists()
    assert refuses(url)


def test_the_python_documentation_is_served(python_docs: Docs) -> None:
    with urlopen(python_docs.url + "library/os.html") as answer:
        assert len(answer.read()) == (python_docs.root / "library/os.html").stat().st_size
