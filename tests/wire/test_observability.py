"""Logs and metrics of a team's service, without secrets, and its stop."""

from __future__ import annotations

import io
import json
import re
import signal
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.openapi.service_process import ServiceProcess, team
from tests.shell import TIMEOUT_S, Shell
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.service.creatives import sample

pytestmark = pytest.mark.slow

ALLOW_LOOPBACK = ("--allow-network", "127.0.0.0/8", "--webhook-loopback")
OBSERVED = ("--metrics", "127.0.0.1:0", "--log-format", "json")
TERMINAL_STATES = {"completed", "failed", "cancelled"}


def client(served: ServiceProcess) -> httpx.Client:
    return httpx.Client(
        base_url=served.url, headers=served.headers, trust_env=False, timeout=TIMEOUT_S
    )


def wait_for_end(http: httpx.Client, job_id: str) -> dict[str, Any]:
    while True:
        reply: dict[str, Any] = http.get(f"/v1/crawl/{job_id}").raise_for_status().json()
        if reply["status"] in TERMINAL_STATES:
            return reply
        http.get(f"/v1/crawl/{job_id}/events")


def metrics(served: ServiceProcess, path: str = "/metrics") -> str:
    found = re.search(r"metrics at (http://[^\s\"]+)/metrics", "".join(served.output_lines))
    assert found is not None, served.output_lines
    return (
        httpx.get(f"{found[1]}{path}", trust_env=False, timeout=TIMEOUT_S).raise_for_status().text
    )


def values(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_ids_and_lines(tmp_path: Path) -> None:
    with (
        Site() as site,
        team(tmp_path, *ALLOW_LOOPBACK, *OBSERVED) as served,
        client(served) as http,
    ):
        link_tree(site, depth=1, fanout=3)
        start = http.post(paths.CRAWL, json={"url": site.at("/tree")})
        job_id = start.json()["job_id"]
        wait_for_end(http, job_id)
        named = http.get(paths.USAGE, headers={"X-Request-ID": "from-proxy.7"})
        forged = http.get(paths.JOBS, headers={"X-Request-ID": 'x" level="error'})
        http.get("/nowhere/with/a-secret?token=hidden")
        counted = values(metrics(served))
        assert metrics(served, "/healthz") == '{"status":"ok"}'
        served.process.send_signal(signal.SIGTERM)
        rest = served.ended()
    assert named.headers["X-Request-ID"] == "from-proxy.7"
    assert re.fullmatch("[0-9a-f]{32}", forged.headers["X-Request-ID"])
    assert start.headers["X-Request-ID"] not in {"", "from-proxy.7"}
    assert counted["webdata_jobs_ended_total", "crawl", "completed"] == 1
    assert counted["webdata_urls_total", "crawl", "fetched"] == 4
    assert counted["webdata_rows_total", "crawl"] == 4
    assert counted["webdata_stored_bytes_total", "crawl"] > 0
    assert counted["webdata_credits_total", "page", "crawl"] == 4
    assert counted["webdata_oldest_pending_seconds",] == 0
    assert counted["webdata_replicas", "serve"] == 1
    assert counted["webdata_store_up",] == 1
    assert counted["webdata_jobs", "crawl", "completed"] == 1
    assert counted["webdata_queue_depth",] == 0
    assert counted["webdata_event_loop_lag_seconds_count",] >= 1
    assert counted["webdata_event_loop_lag_max_seconds",] >= 0
    assert counted["webdata_http_requests_total", "POST", paths.CRAWL, "200"] == 1
    assert counted["webdata_http_requests_total", "GET", "other", "404"] == 1
    assert not [name for name in counted if job_id in str(name) or site.at("") in str(name)]
    lines = [json.loads(line) for line in rest.splitlines()]
    mine = [line for line in lines if line.get("request_id") == "from-proxy.7"]
    assert [(line["route"], line["status"]) for line in mine] == [(paths.USAGE, 200)]
    assert "hidden" not in rest
    assert "a-secret" not in rest


def events(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [line for line in lines if "event" in line]


def cancelled(http: httpx.Client, site: Site) -> str:
    gate = site.hold("/held")
    job_id = str(http.post(paths.CRAWL, json={"url": site.at("/held")}).json()["job_id"])
    site.wait_for("/held", timeout=TIMEOUT_S)
    for _ in range(2):
        http.post(paths.JOB_CANCEL.format(job_id=job_id)).raise_for_status()
    gate.release()
    return job_id


@pytest.mark.parametrize("shape", ["text", "json"])
def test_the_log_says_why_a_job_failed_and_who_used_the_credits(tmp_path: Path, shape: str) -> None:
    options = (*ALLOW_LOOPBACK, "--log-format", shape)
    with Site() as site, team(tmp_path, *options, plan="trial") as served, client(served) as http:
        link_tree(site, depth=1, fanout=3)
        url = site.at("/tree")
        good = http.post(paths.CRAWL, json={"url": url, "max_pages": 10}).json()["job_id"]
        wait_for_end(http, good)
        gone = "http://127.0.0.1:1024/secret-path?token=secret-token"
        bad = http.post(paths.CRAWL, json={"url": gone, "max_pages": 1}).json()["job_id"]
        error = wait_for_end(http, bad)["error"]
        stopped = cancelled(http, site)
        query = {"advertiser_id": next(iter(sample.advertiser_ids())), "limit": 2}
        http.post(paths.CREATIVES, json=query).raise_for_status()
        unknown = http.get(paths.USAGE, headers={"Authorization": "Bearer secret-guess"})
        too_much = http.post(paths.CRAWL, json={"url": url, "max_pages": 1000})
        served.process.send_signal(signal.SIGTERM)
        output_lines = served.ended()
    assert (unknown.status_code, too_much.status_code) == (401, 429)
    assert "secret" not in output_lines
    keys = Shell(tmp_path).run("keys", "list").stdout
    if shape == "text":
        found = [line for line in output_lines.splitlines() if f"job={bad}" in line]
        started, end = (line.partition("events: ")[2] for line in found)
        key = re.search(r"key=(\S+)", end)
        assert key is not None
        assert key[1] in keys
        assert re.fullmatch(
            rf"job_started job={bad} account=\S+ key={key[1]} kind=crawl attempt=1 waited_s=\S+",
            started,
        )
        assert re.fullmatch(
            rf"job_ended job={bad} account=\S+ key={key[1]} kind=crawl status=failed rows=\d "
            r'credits=0 seconds=[\d.]+ attempt=1 reason=".*"',
            end,
        )
        assert error.partition("http")[0][:20] in end
        return
    logged = events(output_lines)
    [accounts] = ({(each["account"], each["key"]) for each in logged if "account" in each},)
    assert len(accounts) == 1
    ends = {each["job"]: each for each in logged if each["event"] == "job_ended"}
    assert len([each for each in logged if each["event"] == "job_ended"]) == 3
    assert {
        job: (end["status"], end["rows"], end["credits"], end["level"]) for job, end in ends.items()
    } == {
        good: ("completed", 4, 4, "info"),
        bad: ("failed", ends[bad]["rows"], 0, "warning"),
        stopped: ("cancelled", 0, 0, "info"),
    }
    assert [each["job"] for each in logged if each["event"] == "job_started"] == [
        good,
        bad,
        stopped,
    ]
    [call] = [each for each in logged if each["event"] == "call_ended"]
    assert (call["platform"], call["credits"], call["creatives"]) == (
        "partner_ads_transparency",
        1,
        1,
    )
    refused = [each for each in logged if each["event"] == "request_refused"]
    assert [(each["status"], "account" in each, each.get("reason")) for each in refused] == [
        (401, False, None),
        (429, True, "CreditsUsedUp"),
    ]


def test_metrics_are_nowhere_else(tmp_path: Path) -> None:
    with team(tmp_path) as served, client(served) as http:
        assert http.get("/metrics").status_code == 404
        assert http.get(paths.READY, headers={"Authorization": ""}).json() == {"status": "ok"}


def test_a_stop_fails_no_job(tmp_path: Path) -> None:
    with Site() as site:
        pages = link_tree(site, depth=2, fanout=3)
        gate = site.hold(pages[5])
        with team(tmp_path, *ALLOW_LOOPBACK) as served, client(served) as http:
            job_id = http.post(paths.CRAWL, json={"url": site.at("/tree")}).json()["job_id"]
            site.wait_for(pages[5], timeout=TIMEOUT_S)
            key = served.key
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(timeout=TIMEOUT_S) == 0
        gate.release()
        with team(tmp_path, *ALLOW_LOOPBACK, key=key) as served, client(served) as http:
            reply = wait_for_end(http, job_id)
    assert (reply["status"], reply["error"]) == ("completed", None)
    assert [row["url"] for row in reply["data"]] == [site.at(path) for path in pages]


CANARIES = {
    "header": "canary-header-5d1c",
    "cookie": "canary-cookie-88e0",
    "hook": "canary-hook-2f6b",
    "llm": "canary-llm-c94a",
    "userinfo": "canary-userinfo-07d3",
}


def leaked(data: bytes, served: ServiceProcess) -> list[str]:
    wanted = {**CANARIES, "key": served.key}
    return [name for name, text in wanted.items() if text.encode() in data]


def unpacked(data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return b"".join(archive.read(name) for name in archive.namelist())


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_no_secret_is_anywhere(tmp_path: Path, outcome: str) -> None:
    secrets = {
        "WEBDATA_LLM_HERE_URL": "https://llm.invalid",
        "WEBDATA_LLM_HERE_KEY": CANARIES["llm"],
    }
    visits = {"headers": {"X-Key": CANARIES["header"]}, "cookies": {"sid": CANARIES["cookie"]}}
    with Site() as site, team(tmp_path, *ALLOW_LOOPBACK, *OBSERVED, **secrets) as served:
        link_tree(site, depth=1, fanout=3)
        url = site.at("/tree") if outcome == "completed" else "http://127.0.0.1:1024/"
        hook = {"webhook_url": site.at("/hook"), "webhook_secret": CANARIES["hook"]}
        with client(served) as http:
            body = {"url": url, "scrape_options": visits, **hook}
            job_id = http.post(paths.CRAWL, json=body).raise_for_status().json()["job_id"]
            wait_for_end(http, job_id)
            urls = [paths.JOBS, paths.USAGE, paths.WEBHOOK_DELIVERIES, paths.WEBHOOK_STATS]
            urls += [paths.OPENAPI, paths.ENGINES, paths.WEIGHTS, "/nowhere"]
            of_job = [paths.CRAWL_JOB, paths.CRAWL_RECEIPT, paths.CRAWL_EVENTS]
            of_job += [f"{paths.CRAWL_EXPORT}?format={name}" for name in ("json", "csv")]
            urls += [path.format(job_id=job_id) for path in of_job]
            answers = [http.get(path) for path in urls]
            userinfo = {"url": f"http://u:{CANARIES['userinfo']}@x.example/"}
            answers.append(http.post(paths.CRAWL, json=userinfo))
            answers.append(http.post(paths.JOB_RETRY.format(job_id=job_id)))
            archive = http.get(paths.CRAWL_EXPORT.format(job_id=job_id), params={"format": "zip"})
        output_lines = b"".join(f"{each.headers}".encode() + each.content for each in answers)
        measured = metrics(served).encode()
        if archive.status_code == 200:
            output_lines += unpacked(archive.content)
        served.process.send_signal(signal.SIGTERM)
        lines = served.ended()
    assert leaked(output_lines, served) == []
    assert leaked(measured, served) == []
    assert leaked(lines.encode(), served) == []
    sent = {hit.headers.get("X-Key") for hit in site.hits("/tree")}
    assert sent == ({CANARIES["header"]} if outcome == "completed" else set())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "jobs.sqlite" for path in files)
    assert {path.name: leaked(path.read_bytes(), served) for path in files} == {
        path.name: [] for path in files
    }
