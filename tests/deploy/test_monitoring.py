"""The files of `deploy/` for Prometheus and Grafana, checked by promtool and run on a service."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import jsonschema
import pytest
import yaml  # type: ignore[import-untyped]

from tests.dask_processes import scratch
from tests.deploy.proxy import DEPLOY
from tests.deploy.replicas import ProxiedService, proxied_service
from tests.ports import free_port
from tests.postgres import PostgresServer
from tests.replica_process import ReplicaProcess
from tests.requirements import require
from tests.site.graphs import link_tree
from tests.site.server import Site

CONFIGURATION: Final = DEPLOY / "prometheus.yml"
ALERTS: Final = DEPLOY / "alerts.yml"
DASHBOARD: Final = DEPLOY / "grafana-dashboard.json"
ALERT_TESTS: Final = Path(__file__).parent / "alerts_test.yml"
DEADLINE_S: Final = 120.0
METRIC: Final = re.compile(r"\bwebdata_[a-z_]+\b")
RECORDED: Final = re.compile(r"\bwebdata:[a-z0-9_:]+")
# Panels of events that a short and healthy run of a service does not have.
EMPTY_PANELS: Final = {
    "Stalled attempts per hour",
    "Refused connections per minute",
    "Files of stored pages per minute",
    "Webhooks",
}
TEXT: Final = {"type": "string", "minLength": 1}
SOURCE: Final = {"const": {"type": "prometheus", "uid": "${datasource}"}}
# The part of Grafana's classic model that the file uses.
PANEL: Final = {
    "type": "object",
    "required": ["id", "type", "title", "gridPos"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "type": {"enum": ["row", "stat", "timeseries"]},
        "title": TEXT,
        "gridPos": {
            "type": "object",
            "required": ["h", "w", "x", "y"],
            "additionalProperties": {"type": "integer", "minimum": 0},
        },
    },
    "if": {"properties": {"type": {"const": "row"}}},
    "then": {"properties": {"panels": {"const": []}, "collapsed": {"const": False}}},
    "else": {
        "required": ["description", "datasource", "targets", "fieldConfig", "options"],
        "properties": {
            "description": TEXT,
            "datasource": SOURCE,
            "fieldConfig": {"type": "object", "required": ["defaults", "overrides"]},
            "targets": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["refId", "datasource", "expr", "legendFormat"],
                    "properties": {
                        "refId": {"pattern": "^[A-Z]$"},
                        "datasource": SOURCE,
                        "expr": TEXT,
                    },
                },
            },
        },
    },
}
MODEL: Final = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "time", "templating", "annotations", "panels"],
    "properties": {
        "id": {"const": None},
        "uid": {"pattern": "^[a-zA-Z0-9_-]{1,40}$"},
        "title": TEXT,
        "schemaVersion": {"type": "integer", "minimum": 39},
        "templating": {
            "properties": {
                "list": {
                    "prefixItems": [
                        {
                            "properties": {
                                "name": {"const": "datasource"},
                                "type": {"const": "datasource"},
                                "query": {"const": "prometheus"},
                            }
                        }
                    ],
                    "minItems": 1,
                    "maxItems": 1,
                }
            }
        },
        "panels": {"type": "array", "items": PANEL},
    },
}


def promtool(*words: str | Path) -> str:
    """Run promtool, which has to be content; return its output."""
    ended = subprocess.run(
        [require("promtool"), *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text("utf-8"))


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def query(expression: str) -> str:
    """Return the query of a panel as Grafana sends it, for a scrape per second."""
    return expression.replace("$__rate_interval", "10s")


def expressions() -> list[str]:
    """Return all expressions of the rules and of the dashboard."""
    targets = [target["expr"] for panel in panels() for target in panel["targets"]]
    annotations = [each["expr"] for each in dashboard()["annotations"]["list"]]
    return [*(rule["expr"] for rule in rules()), *targets, *annotations]


def test_promtool_accepts_configuration_and_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", CONFIGURATION)
    assert f"{len(rules())} rules found" in promtool("check", "rules", "--lint=all", ALERTS)


def test_alerts_fire_when_they_should() -> None:
    assert "SUCCESS" in promtool("test", "rules", ALERT_TESTS)


def test_every_alert_is_tested_silent_and_firing() -> None:
    groups = yaml.safe_load(ALERT_TESTS.read_text("utf-8"))["tests"]
    cases = [case for group in groups for case in group["alert_rule_test"]]
    firing = {case["alertname"] for case in cases if case.get("exp_alerts")}
    silent = {case["alertname"] for case in cases if not case.get("exp_alerts")}
    assert firing == silent == set(alerts())


@pytest.mark.parametrize("name", sorted(alerts()))
def test_alert_says_what_is_wrong_and_what_to_do(name: str) -> None:
    alert = alerts()[name]
    assert alert["labels"]["severity"] in {"page", "ticket"}
    assert alert["annotations"]["summary"].endswith((".", ")."))
    assert alert["annotations"]["description"].endswith(".")


def test_guide_lists_the_alerts() -> None:
    guide = (DEPLOY.parent / "docs" / "guide" / "operations.md").read_text("utf-8")
    documented = re.findall(r"^\| `(Webdata\w+)` \| (\w+) \|", guide, re.MULTILINE)
    assert dict(documented) == {n: alert["labels"]["severity"] for n, alert in alerts().items()}


def test_recorded_names_exist() -> None:
    records = {rule["record"] for rule in rules() if "record" in rule}
    assert {name for text in expressions() for name in RECORDED.findall(text)} == records


def test_jobs_of_the_configuration_are_those_of_the_rules() -> None:
    names = {job["job_name"] for job in yaml.safe_load(CONFIGURATION.read_text())["scrape_configs"]}
    used = {
        name
        for text in expressions()
        for matched in re.findall(r'\bjob=~?"([^"]+)"', text)
        for name in matched.split("|")
    }
    assert used == names


def test_dashboard_follows_the_model_of_grafana() -> None:
    model = dashboard()
    jsonschema.validate(model, MODEL)
    assert len({panel["id"] for panel in model["panels"]}) == len(model["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in model["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    file = tmp_path / "queries.yml"
    recorded = [
        {"record": f"query:{number}", "expr": query(text)}
        for number, text in enumerate(expressions())
    ]
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    assert f"{len(recorded)} rules found" in promtool("check", "rules", file)


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of a reply of its API."""
        reply = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, trust_env=False)
        assert reply.status_code == 200, reply.text
        return reply.json()["data"]

    def values(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the labels and the value of each series of an instant query."""
        result = self.get("query", query=expression)["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]

    def alert_states(self) -> dict[str, str]:
        """Return the states of the alerts that are pending or fire."""
        return {each["labels"]["alertname"]: each["state"] for each in self.get("alerts")["alerts"]}


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


@contextmanager
def running_prometheus(folder: Path, targets: dict[str, list[str]]) -> Iterator[Prometheus]:
    """Run Prometheus with the files of `deploy/`, a scrape per second, and other targets."""
    configuration = yaml.safe_load(CONFIGURATION.read_text("utf-8"))
    configuration["global"] = dict.fromkeys(configuration["global"], "1s")
    for job in configuration["scrape_configs"]:
        job["static_configs"] = [{"targets": targets[job["job_name"]]}]
    file = folder / CONFIGURATION.name
    file.write_text(yaml.safe_dump(configuration))
    (folder / ALERTS.name).write_text(ALERTS.read_text("utf-8"))
    promtool("check", "config", file)
    address = f"127.0.0.1:{free_port()}"
    words = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [require("prometheus"), *words, f"--web.listen-address={address}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
        ) as process,
    ):
        try:

            def is_ready() -> bool:
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    reply = httpx.get(f"http://{address}/-/ready", trust_env=False)
                except httpx.TransportError:
                    return False
                return reply.status_code == 200

            wait_until(is_ready)
            yield Prometheus(f"http://{address}")
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def service(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProxiedService]:
    """Run two replicas whose jobs run in a worker of a Dask cluster."""
    home = tmp_path_factory.mktemp("monitored")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in scratch(home).items():
            patch.setenv(name, value)
        with proxied_service(postgres_server, home, "--dask", "local:1") as running:
            yield running


@pytest.fixture
def worker(service: ProxiedService, tmp_path: Path) -> Iterator[ReplicaProcess]:
    """Run a worker of the service."""
    worker = ReplicaProcess(
        tmp_path / "worker", service.store_url, service.secret_key, command="worker"
    )
    worker.start()
    try:
        yield worker
    finally:
        worker.kill()


def use(service: ProxiedService, site: Site) -> None:
    """Run a crawl and a search, and send a request that is refused."""
    link_tree(site, depth=1, fanout=3)
    with httpx.Client(
        base_url=service.url, headers=service.headers, timeout=DEADLINE_S, trust_env=False
    ) as http:
        bodies = {
            "crawl": {"url": site.at("/tree")},
            "search": {"query": "colour", "formats": []},
        }
        for kind, body in bodies.items():
            started = http.post(f"/v1/{kind}", json=body).raise_for_status().json()
            assert http.get(f"/v1/{kind}/{started['job_id']}/events").status_code == 200
        assert http.get("/v1/usage", headers={"Authorization": "Bearer none"}).status_code == 401


@pytest.mark.slow
def test_named_metrics_are_exported(service: ProxiedService) -> None:
    text = httpx.get(service.replicas[0].metrics_url, trust_env=False, timeout=DEADLINE_S).text
    exported = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    named = {name for each in expressions() for name in METRIC.findall(each)}
    families = {re.sub(r"_bucket$", "", name) for name in named}
    assert families - exported == set()
    guide = (DEPLOY.parent / "docs" / "guide" / "operations.md").read_text("utf-8")
    tables = "\n".join(line for line in guide.splitlines() if line.startswith("| `webdata_"))
    # The exposition adds the time at which a counter began.
    assert {name for name in exported if not name.endswith("_created")} == {*METRIC.findall(tables)}


@pytest.mark.slow
def test_prometheus_watches_a_service(
    service: ProxiedService, worker: ReplicaProcess, site: Site, tmp_path: Path
) -> None:
    addresses = [each.metrics_url.split("/")[2] for each in (*service.replicas, worker)]
    targets = {"webdata": addresses[:2], "webdata-worker": addresses[2:]}
    with running_prometheus(tmp_path, targets) as prometheus:
        wait_until(lambda: prometheus.values("sum(up)") == [({}, 3.0)])
        use(service, site)
        ended = "max by (kind, state) (webdata_jobs_ended_total)"
        wait_until(lambda: sum(value for _, value in prometheus.values(ended)) == 2)
        # A rate takes two scrapes, and counts of refused requests are stored after a while.
        for counter in ("webdata_rows_total", "webdata_refused_requests_total"):
            wait_until(partial(prometheus.values, f"rate({counter}[10s])"))
        empty = set()
        for panel in panels():
            for target in panel["targets"]:
                series = prometheus.values(query(target["expr"]))
                labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                # A label without a value does not appear: a request may be refused without reason.
                missing = {
                    label for label in labels if series and not any(label in k for k, _ in series)
                }
                assert missing <= {"reason"}, (panel["title"], series)
                empty |= set() if series else {panel["title"]}
        assert empty <= EMPTY_PANELS
        wait_until(
            lambda: (
                {
                    (rule["health"], rule.get("lastError", ""))
                    for group in prometheus.get("rules")["groups"]
                    for rule in group["rules"]
                }
                == {("ok", "")}
            )
        )
        assert not prometheus.alert_states().keys() & {"WebdataDown", "WebdataProcessDown"}
        # Both replicas report the same of the database.
        for metric in ("webdata_rows_total", "webdata_replicas"):
            values = prometheus.values(f'count by (kind) ({metric}{{job="webdata"}})')
            assert {value for _, value in values} == {2.0}, metric
        assert worker.terminate() == 0
        wait_until(lambda: prometheus.alert_states().get("WebdataProcessDown") == "pending")
        assert prometheus.values('up{job="webdata-worker"}')[0][1] == 0.0
        assert "WebdataDown" not in prometheus.alert_states()
