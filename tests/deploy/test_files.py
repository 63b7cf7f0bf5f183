"""The files of `deploy/` follow their formats, agree with each other, and contain no secret."""

from __future__ import annotations

import configparser
import fnmatch
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.dockerfile import instructions, stages
from tests.deploy.proxy import DEPLOY, UPSTREAM, configuration
from tests.ports import free_port
from tests.requirements import require
from tests.shell import CHECKOUT, Shell
from webdata_nb.service.server import SHUTDOWN_S

DOCKERFILE: Final = DEPLOY / "Dockerfile"
UNITS: Final = sorted(DEPLOY.glob("*.service"))
each_unit = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
# The port of the metrics in containers.
METRICS_PORT: Final = 9100
KEYWORDS: Final = {
    *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"),
    *("HEALTHCHECK", "ENTRYPOINT", "CMD"),
}
# A tag with all parts of a version, so that a new release is a change of this file.
PINNED: Final = re.compile(r"[a-z]+:\d+\.\d+(\.\d+)?-[a-z-]+")
REQUIRED: Final = re.compile(r"\$\{([A-Z_]+):\?[^}]+\}")
SECRETS: Final = re.compile(r"PASSWORD|SECRET|STORE|TOKEN|KEY")
DURATION: Final = {"type": "string", "pattern": r"^\d+(s|m)$"}
TEXT: Final = {"type": "string"}
TEXTS: Final = {"type": "array", "items": TEXT}
# The part of https://github.com/compose-spec/compose-spec that the file uses.
SERVICE: Final = {
    "type": "object",
    "required": ["image", "restart", "networks"],
    "additionalProperties": False,
    "properties": {
        "image": TEXT,
        "build": {
            "type": "object",
            "required": ["context", "dockerfile"],
            "additionalProperties": False,
            "properties": {"context": TEXT, "dockerfile": TEXT},
        },
        "command": TEXTS,
        "entrypoint": TEXTS,
        "user": TEXT,
        "environment": {"type": "object", "additionalProperties": TEXT},
        "depends_on": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["condition"],
                "properties": {"condition": {"const": "service_healthy"}},
            },
        },
        "healthcheck": {
            "type": "object",
            "required": ["test", "interval", "timeout", "retries"],
            "additionalProperties": False,
            "properties": {
                "test": {"type": "array", "prefixItems": [{"enum": ["CMD", "CMD-SHELL"]}]},
                "interval": DURATION,
                "timeout": DURATION,
                "start_period": DURATION,
                "retries": {"type": "integer"},
            },
        },
        "init": {"type": "boolean"},
        "read_only": {"type": "boolean"},
        "tmpfs": TEXTS,
        "cap_drop": {"const": ["ALL"]},
        "security_opt": {"const": ["no-new-privileges:true"]},
        "mem_limit": TEXT,
        "shm_size": TEXT,
        "pids_limit": {"type": "integer"},
        "ports": TEXTS,
        "volumes": TEXTS,
        "restart": {"const": "unless-stopped"},
        "stop_signal": TEXT,
        "stop_grace_period": DURATION,
        "networks": {
            "type": "object",
            "additionalProperties": {
                "type": ["object", "null"],
                "required": ["ipv4_address"],
                "properties": {"ipv4_address": TEXT},
            },
        },
    },
}
COMPOSE: Final = {
    "type": "object",
    "required": ["name", "services", "volumes", "networks"],
    "additionalProperties": False,
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": TEXT,
        "services": {"type": "object", "additionalProperties": SERVICE},
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
        "networks": {"type": "object"},
    },
}


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


def replicas(compose: Any) -> list[Any]:
    return [each for name, each in compose["services"].items() if name.startswith("replica-")]


def processes(compose: Any) -> list[Any]:
    """Return the replicas and the worker."""
    return [*replicas(compose), compose["services"]["worker"]]


def address(service: Any) -> str:
    return str(service["networks"]["default"]["ipv4_address"])


def test_compose_file_follows_the_specification(compose: Any) -> None:
    jsonschema.validate(compose, COMPOSE)
    services, volumes = compose["services"], set(compose["volumes"])
    mounted = [volume.split(":")[0] for each in services.values() for volume in each["volumes"]]
    assert {name for name in mounted if not name.startswith(".")} == volumes
    assert all((DEPLOY / name).exists() for name in mounted if name.startswith("."))
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
    for name in {name for each in services.values() for name in each.get("depends_on", ())}:
        has_check = "healthcheck" in services[name] or services[name]["image"] == "webdata_nb"
        assert has_check, name
    # Workers, of which there may be any number, get an address of a range without fixed ones.
    fixed = [each for name, each in services.items() if name != "worker"]
    assert services["worker"]["networks"] == {"default": None}
    addresses = [address(service) for service in fixed]
    [network] = compose["networks"]["default"]["ipam"]["config"]
    subnet, pool = ip_network(network["subnet"]), ip_network(network["ip_range"])
    assert len(set(addresses)) == len(addresses)
    assert all(ip_address(each) in subnet for each in addresses)
    assert not any(ip_address(each) in pool for each in addresses)
    assert pool.network_address in subnet
    assert pool.broadcast_address in subnet


def test_compose_file_runs_two_replicas_and_a_worker_confined(compose: Any) -> None:
    both = replicas(compose)
    assert len(both) == 2
    for process in processes(compose):
        assert process["read_only"]
        assert process["cap_drop"] == ["ALL"]
        assert process["security_opt"] == ["no-new-privileges:true"]
        assert int(process["stop_grace_period"].rstrip("s")) > SHUTDOWN_S + 2
        assert f"--metrics=0.0.0.0:{METRICS_PORT}" in process["command"]
        assert "files:/var/lib/webdata-files" in process["volumes"]
    # What all processes share: the database, its key, the folder of files.
    first, *others = [dict(process["environment"]) for process in processes(compose)]
    first.pop("WEBDATA_REPLICA")
    assert first.keys() == {"WEBDATA_STORE", "WEBDATA_SECRET_KEY", "WEBDATA_BLOBS"}
    assert all(first.items() <= each.items() for each in others)
    # A name or a volume of a worker would be that of all copies.
    worker = compose["services"]["worker"]
    assert worker["environment"] == first
    assert worker["volumes"] == ["files:/var/lib/webdata-files"]
    assert len({replica["environment"]["WEBDATA_REPLICA"] for replica in both}) == 2
    assert len({replica["volumes"][0] for replica in both}) == 2


def test_proxy_and_replicas_know_each_other(compose: Any) -> None:
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    both = replicas(compose)
    assert UPSTREAM.findall(text) == [f"{address(each)}:8000" for each in both]
    proxy = compose["services"]["proxy"]
    for replica in both:
        assert f"--trusted-proxy={address(proxy)}" in replica["command"]
        assert "--port=8000" in replica["command"]
    # Without TLS, the port is for this machine only.
    assert proxy["ports"] == ["${PUBLISH:-127.0.0.1:8080}:8080"]
    database = address(compose["services"]["postgres"])
    assert all(f"@{database}/" in each["environment"]["WEBDATA_STORE"] for each in both)


def test_secrets_are_required_and_not_in_the_files(compose: Any) -> None:
    required = set()
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if SECRETS.search(name):
                assert REQUIRED.search(value), name
                required |= set(REQUIRED.findall(value))
    example = (DEPLOY / "env.example").read_text("utf-8")
    assert set(re.findall(r"^([A-Z_]+)=(.*)$", example, re.MULTILINE)) == {
        (name, "") for name in required
    }
    for instruction in instructions(DOCKERFILE):
        assert not (instruction.keyword == "ENV" and SECRETS.search(instruction.text))
    ignored = subprocess.run(
        ["git", "check-ignore", "deploy/.env"], cwd=CHECKOUT, check=False, capture_output=True
    )
    if (CHECKOUT / ".git").exists():
        assert ignored.returncode == 0, "deploy/.env is not ignored by git"


def test_images_are_pinned(compose: Any) -> None:
    names = [each["image"] for each in compose["services"].values()]
    names += [stage[0].words[0] for stage in stages(DOCKERFILE)]
    assert [name for name in names if name != "webdata_nb" and not PINNED.fullmatch(name)] == []


def test_dockerfile_runs_an_ordinary_user() -> None:
    found = instructions(DOCKERFILE)
    assert {each.keyword for each in found} <= KEYWORDS
    final = stages(DOCKERFILE)[-1]
    keywords = [each.keyword for each in final]
    users = [each.text for each in final if each.keyword == "USER"]
    assert [re.fullmatch(r"[1-9]\d+:[1-9]\d+", user) is not None for user in users] == [True]
    # What needs root comes before, what runs comes after.
    assert max(i for i, k in enumerate(keywords) if k == "RUN") < keywords.index("USER")
    assert keywords.index("USER") < keywords.index("ENTRYPOINT") < keywords.index("CMD")
    assert keywords.count("HEALTHCHECK") == 1


def copied() -> list[str]:
    """Return the files and folders of the checkout that the image is built from."""
    copies = [each for each in stages(DOCKERFILE)[0] if each.keyword == "COPY"]
    return [word for each in copies for word in each.words[:-1]]


def test_build_context_has_the_copied_files_alone() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert [rule[1:] for rule in rules if rule.startswith("!")] == copied()
    assert all((CHECKOUT / name).exists() for name in copied())
    assert any(fnmatch.fnmatch("webdata_nb/__pycache__", rule) for rule in rules[1:])


def test_installed_extras_exist() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    runs = [each.text for each in instructions(DOCKERFILE) if each.keyword == "RUN"]
    [extras] = [match[1] for run in runs if (match := re.search(r"\.\[([a-z,]+)\]", run))]
    assert "postgres" in extras
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def process_commands(compose: Any) -> Iterator[list[str]]:
    yield next(each for each in stages(DOCKERFILE)[-1] if each.keyword == "CMD").words
    yield from (process["command"] for process in processes(compose))
    yield from (unit(path)["Service"]["ExecStart"].split()[1:] for path in UNITS)


def test_options_of_commands_exist(compose: Any, tmp_path: Path) -> None:
    for command in process_commands(compose):
        result = Shell(tmp_path).call(*command[:1], "--help")
        options = {word.partition("=")[0] for word in command if word.startswith("--")}
        assert options <= set(re.findall(r"--[a-z][a-z-]*", result.stdout))


def unit(path: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path, "utf-8")
    return parser


@each_unit
def test_unit_confines_the_process(path: Path) -> None:
    service = unit(path)["Service"]
    expected = {
        "DynamicUser": "yes",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "ReadWritePaths": "-/srv/webdata-files",
        "Restart": "on-failure",
        "KillSignal": "SIGTERM",
        "CapabilityBoundingSet": "",
    }
    assert {name: service.get(name) for name in expected} == expected
    assert int(service["TimeoutStopSec"]) > SHUTDOWN_S + 2
    # The data directory is its own, the folder of the files is that of all units.
    own, files = service["StateDirectory"].split()
    assert f"--data-dir %S/{own} " in service["ExecStart"]
    assert service["WorkingDirectory"] == f"%S/{own}"
    assert files == "webdata/files"


def test_units_differ_in_what_they_run_alone() -> None:
    replica, worker = (
        {
            (section, name): value
            for section in ("Unit", "Service", "Install")
            for name, value in unit(DEPLOY / f"{stem}@.service")[section].items()
        }
        for stem in ("webdata", "webdata-worker")
    )
    assert replica.keys() == worker.keys()
    assert {name for _, name in replica if replica[_, name] != worker[_, name]} == {
        *("Description", "ExecStart", "ExecStartPost", "StateDirectory", "WorkingDirectory")
    }


def health_check(path: Path) -> str:
    """Return the URL that a unit asks before its start has succeeded."""
    command = unit(path)["Service"]["ExecStartPost"].split()
    assert "--fail" in command
    return command[-1]


def test_processes_are_started_once_they_work(compose: Any) -> None:
    replica, worker = (DEPLOY / f"{name}@.service" for name in ("webdata", "webdata-worker"))
    assert health_check(replica) == "http://127.0.0.1:%i/readyz"
    assert " --port %i " in unit(replica)["Service"]["ExecStart"]
    assert health_check(worker) == "http://127.0.0.1:%i/healthz"
    assert " --metrics 127.0.0.1:%i " in unit(worker)["Service"]["ExecStart"]
    # The image's own check asks a port that workers do not have.
    test = compose["services"]["worker"]["healthcheck"]["test"]
    assert f"'127.0.0.1', {METRICS_PORT}" in test[-1]
    assert "'GET', '/healthz'" in test[-1]
    image = next(each for each in stages(DOCKERFILE)[-1] if each.keyword == "HEALTHCHECK").words
    ask = (str(METRICS_PORT), "/healthz")
    assert [word.replace("8000", ask[0]).replace("/readyz", ask[1]) for word in image] == test[1:]


def test_prometheus_scrapes_the_units_of_its_comment() -> None:
    text = (DEPLOY / "prometheus.yml").read_text("utf-8")
    replica, worker = (unit(path)["Service"]["ExecStart"] for path in reversed(UNITS))
    ports = {}
    for job, start, name in (
        ("webdata", replica, "webdata@"),
        ("webdata-worker", worker, "worker@"),
    ):
        [address] = re.findall(r"--metrics (\S+)", start)
        instances = re.findall(rf"`\S*{name}(\d+)`", text)
        ports[job] = [address.replace("%i", instance) for instance in instances]
    jobs = yaml.safe_load(text)["scrape_configs"]
    assert {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs} == ports


def verify_unit(file: Path) -> None:
    """Let systemd check a unit."""
    verified = subprocess.run(
        [require("systemd-analyze"), "verify", file], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program that takes the place of `webdata` in units."""
    file = tmp_path / "webdata"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@each_unit
def test_systemd_accepts_the_unit(path: Path, program: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    text = path.read_text("utf-8")
    start = "ExecStart=/opt/webdata/bin/webdata "
    assert text.count(start) == 1
    copy.write_text(text.replace(start, f"ExecStart={program} "))
    verify_unit(copy)
    rated = subprocess.run(
        [require("systemd-analyze"), "security", "--offline=true", "--threshold=20", copy],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""},
    )
    assert rated.returncode == 0, rated.stdout[-300:]


def command_words(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", ""))


def test_commands_run_as_the_units_do(program: Path, tmp_path: Path) -> None:
    """The properties of the documented `systemd-run` are those of a unit that systemd accepts."""
    comment = "\n".join(
        line.removeprefix("#").strip()
        for line in (DEPLOY / "webdata@.service").read_text("utf-8").splitlines()
        if line.startswith("#")
    )
    [command] = re.findall(r"^systemd-run (?:.*\\\n)+.*$", comment, re.MULTILINE)
    words = command_words(command)
    guide = (CHECKOUT / "docs" / "guide" / "several-machines.md").read_text("utf-8")
    documented = re.findall(r"^systemd-run (?:.*\\\n)+.*$", guide, re.MULTILINE)
    assert [command_words(each) for each in documented] == [words]
    properties = [w.removeprefix("--property=") for w in words if w.startswith("--property=")]
    service = unit(DEPLOY / "webdata@.service")["Service"]
    for name, _, value in (each.partition("=") for each in properties):
        assert value in (service[name].split() if name == "StateDirectory" else [service[name]])
    assert words[-5:] == shlex.split("/opt/webdata/bin/webdata keys create --name alice")
    copy = tmp_path / "command.service"
    copy.write_text("\n".join(["[Service]", f"ExecStart={program} keys", *properties, ""]))
    verify_unit(copy)


def test_nginx_accepts_the_configuration(tmp_path: Path) -> None:
    program = require("nginx")
    file = tmp_path / "nginx.conf"
    file.write_text(configuration((8001, 8002), f"127.0.0.1:{free_port()}"))
    checked = subprocess.run(
        [program, "-t", "-p", tmp_path, "-c", file, "-g", "daemon off;"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert "[warn]" not in checked.stderr
