"""The guides for operators are followed as they are printed: each command in order, for real.

Only placeholders and ports are replaced. See `stand_ins` for what this machine cannot run.
"""

from __future__ import annotations

import random
import re
import shutil
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import psycopg
import pytest

from tests.dask_processes import create_certificate, wait_until
from tests.deploy.proxy import DEPLOY
from tests.deploy.stand_ins import CHECKOUT
from tests.deploy.terminals import GUIDE, Terminal, commands, sections
from tests.ports import free_port
from tests.postgres import (
    USER,
    PostgresServer,
    give_to_server,
    running,
    running_standby,
    server_address,
)
from tests.requirements import require
from webdata_nb.service.encryption import new_key

pytestmark = pytest.mark.slow

PORTS: Final = ("8000", "8786")
# Instances of units: the metrics of a replica have the same port with a 1 before it.
UNIT_PORTS: Final = ("8001", "8002", "9101", "9102")

PROMOTION: Final = 'psql "$STANDBY"'
# The starts of blocks that need servers or machines of their own, and the tests that follow them.
ELSEWHERE: Final = {
    PROMOTION: ("tests/deploy/test_guides.py", "test_fail_over_to_a_standby"),
    "ip netns exec": (
        "tests/service/replicas/test_partition.py",
        "test_a_short_partition_moves_no_job",
    ),
}


def pattern_of(port: str) -> str:
    """Return what matches a port of a guide, and that of the metrics of its unit."""
    return rf"(?<=[@: ])(1?){port}\b"


def free_unit_ports() -> list[str]:
    """Return ports of four digits, of which those with a 1 before them are free too."""
    found: list[str] = []
    for number in random.SystemRandom().sample(range(1100, 9999), 400):
        try:
            for port in (number, 10_000 + number):
                with socket.socket() as probe:
                    probe.bind(("0.0.0.0", port))
        except OSError:
            continue
        found.append(str(number))
        if len(found) == len(UNIT_PORTS):
            return found
    raise OSError("no free ports")


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """Create a database; the roles that a guide creates are dropped with it."""
    name = f"guide_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield name
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            connection.execute("DROP ROLE IF EXISTS analyst")


@pytest.fixture
def terminal(postgres_server: PostgresServer, database: str, tmp_path: Path) -> Iterator[Terminal]:
    units = dict(zip(UNIT_PORTS, free_unit_ports(), strict=True))
    ports = {port: str(free_port()) for port in PORTS}
    server = f"127.0.0.1:{postgres_server.port}"
    substitutions = {
        r"USER:PASSWORD@HOST/DATABASE": f"{USER}:{postgres_server.password}@{server}/{database}",
        r"USER:PASSWORD@db1:5432,db2:5432/DATABASE": (
            f"{USER}:{postgres_server.password}@127.0.0.1:{free_port()},{server}/{database}"
        ),
        r"(?<=http://)HOST(?=:)": "127.0.0.1",
        r"(?<=tls://)SCHEDULER(?=:)": "127.0.0.1",
        **{pattern_of(port): rf"\g<1>{new}" for port, new in (units | ports).items()},
    }
    made = Terminal(tmp_path, substitutions)
    try:
        yield made
    finally:
        made.stop()


def test_blocks_are_split_into_commands() -> None:
    block = "a 'b\nc' # d\nfor x in 1 2; do\n  e $x\ndone\nf \\\n  --g\n"
    assert [*commands(block)] == ["a 'b\nc' # d", "for x in 1 2; do\n  e $x\ndone", "f \\\n  --g"]


@pytest.mark.parametrize("page", ["team-service.md", "several-machines.md"])
def test_all_blocks_are_commands(page: str) -> None:
    fences = re.findall(r"^```(\w*)$", (GUIDE / page).read_text("utf-8"), re.MULTILINE)
    languages = [language for blocks in sections(page).values() for language, _ in blocks]
    # Others are parts of files.
    assert [language for language in fences[::2] if language != "ini"] == languages


def test_team_service(terminal: Terminal, postgres_server: PostgresServer, database: str) -> None:
    require("postgresql")
    first = dict(terminal.environ)
    for title, blocks in sections("team-service.md").items():
        # Each section begins in a new terminal; files in pages need the key of before.
        keeps = {"WEBDATA_STORE", "WEBDATA_SECRET_KEY"} if title == "Downloaded files" else set()
        terminal.environ = first | {n: v for n, v in terminal.environ.items() if n in keeps}
        if title.startswith("Move"):
            with psycopg.connect(postgres_server.url, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())
                connection.execute(f"CREATE DATABASE {database}".encode())
        terminal.follow(blocks)
        terminal.stop()
    assert terminal.output.count("wdk_") == 2


def test_several_machines(terminal: Terminal) -> None:
    certificate, key = create_certificate(terminal.folder)
    for name, source in {"ca": certificate, "cert": certificate, "key": key}.items():
        (terminal.folder / "work" / f"{name}.pem").write_bytes(source.read_bytes())
    store = terminal.on_this_machine("postgresql://USER:PASSWORD@HOST/DATABASE")
    # What the page before it has set.
    first = terminal.environ | {"WEBDATA_STORE": store, "WEBDATA_SECRET_KEY": new_key()}
    for title, blocks in sections("several-machines.md").items():
        terminal.environ = dict(first)
        terminal.follow([each for each in blocks if not each[1].startswith(tuple(ELSEWHERE))])
        if title == "Files to run it":
            text = (terminal.folder / "etc/webdata/webdata.env").read_text()
            [first["WEBDATA_SECRET_KEY"]] = re.findall(
                r"^WEBDATA_SECRET_KEY=(.+)$", text, re.MULTILINE
            )
            terminal.substitutions[r"=SECRET_KEY\b"] = f"={first['WEBDATA_SECRET_KEY']}"
            ask_with_the_key(terminal)
        if title.startswith("Fail-over"):
            with psycopg.connect(terminal.environ["WEBDATA_STORE"]) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
        if title == "Workers of a Dask cluster":
            wait_for_dask_worker(terminal.on_this_machine("http://HOST:8000/readyz"))
        terminal.stop()


def test_blocks_that_are_followed_elsewhere() -> None:
    blocks = [text for each in sections("several-machines.md").values() for _, text in each]
    for start, (path, name) in ELSEWHERE.items():
        assert len([text for text in blocks if text.startswith(start)]) == 1
        assert f"def {name}(" in (CHECKOUT / path).read_text("utf-8")


def test_fail_over_to_a_standby(terminal: Terminal) -> None:
    blocks = sections("several-machines.md")["Fail-over and outages"]
    [block] = [text for _, text in blocks if text.startswith(PROMOTION)]
    with running() as former, running_standby(former) as standby:
        terminal.environ |= {"STANDBY": standby.url, "NEW_PRIMARY": standby.url}
        terminal.environ |= {"WEBDATA_STORE": standby.url, "WEBDATA_SECRET_KEY": new_key()}
        folder = former.folder / "data"
        terminal.substitutions |= {"/var/lib/postgresql/15/main": str(folder)}
        former.stop("immediate")
        shutil.rmtree(folder)
        for command in commands(block):
            # Debian keeps the configuration, with the port, outside of the data.
            if "pg_ctlcluster" in command:
                former.configure(**server_address(former))
                for path in (folder, *folder.rglob("*")):
                    give_to_server(path)
                former.start()
            else:
                terminal.run(terminal.on_this_machine(command))
        with psycopg.connect(standby.url) as connection:
            query = "SELECT sync_state FROM pg_stat_replication"
            assert connection.execute(query).fetchall() == [("sync",)]
        with psycopg.connect(former.url) as connection:
            assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)


def comment_commands(name: str) -> str:
    """Return the commands in the comments of a file of `deploy/`: its indented lines."""
    found = re.findall(r"^#   +(?!\w+: )(.+)$", (DEPLOY / name).read_text("utf-8"), re.MULTILINE)
    return "".join(f"{line}\n" for line in found)


@pytest.mark.parametrize(
    "names",
    [
        ("Dockerfile", "compose.yaml"),
        ("webdata@.service", "webdata-worker@.service"),
        ("prometheus.yml",),
    ],
    ids=["compose", "units", "prometheus"],
)
def test_comments_of_the_files(terminal: Terminal, names: tuple[str, ...]) -> None:
    require("promtool")
    store = terminal.on_this_machine("postgresql://USER:PASSWORD@HOST/DATABASE")
    secrets = {"WEBDATA_STORE": store, "WEBDATA_SECRET_KEY": new_key()}
    environment = terminal.folder / "etc/webdata/webdata.env"
    environment.parent.mkdir()
    environment.write_text("".join(f"{name}={value}\n" for name, value in secrets.items()))
    # Only root can give files away.
    terminal.substitutions |= {" --owner=webdata --group=webdata": ""}
    for name in names:
        terminal.follow([("sh", comment_commands(name))])
    assert ("wdk_" in terminal.output) == ("webdata@.service" in names)


def wait_for_dask_worker(url: str) -> None:
    def is_connected() -> bool:
        state = httpx.get(url, trust_env=False).json().get("dask")
        return bool(state == {"scheduler": "connected", "workers": 1})

    wait_until(is_connected, url)


def ask_with_the_key(terminal: Terminal) -> None:
    """Ask both replicas with the key that the command printed."""
    for port in ("8001", "8002"):
        url = terminal.on_this_machine(f"http://HOST:{port}")
        terminal.run(
            terminal.on_this_machine(f"WEBDATA_BASE_URL={url} WEBDATA_API_KEY=KEY webdata jobs")
        )


def test_prometheus_of_the_operators_guide(terminal: Terminal) -> None:
    require("promtool")
    for blocks in sections("operations.md").values():
        terminal.follow(blocks)
    configuration = terminal.folder / "etc/prometheus/prometheus.yml"
    assert (
        configuration.read_bytes() == (terminal.folder / "work/deploy/prometheus.yml").read_bytes()
    )
