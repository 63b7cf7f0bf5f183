"""Commands of `webdata`, their output and their exit codes."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd
import pytest

from tests.shell import TIMEOUT_S, Shell
from tests.site.document import document
from webdata_nb import __version__

if TYPE_CHECKING:
    from tests.site.server import Site

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Return a shell whose local service runs until the end of the module."""
    shell = Shell(tmp_path_factory.mktemp("cli"))
    with shell.serving():
        yield shell


def three_pages(site: Site) -> str:
    site.page("/two", document("Two", links=["/"]))
    site.page("/three", document("Three", links=["/two"]))
    return site.page("/", document("One", links=["/two", "/three"]))


def one_line(text: str) -> str:
    """Return the only line of `text`."""
    [line] = text.splitlines()
    return line


# Usage


def test_help_lists_commands_and_imports_nothing_heavy(shell: Shell) -> None:
    result = shell.run("--help")
    assert result.returncode == 0
    for command in ("demo", "crawl", "search", "jobs", "cache", "serve", "stop"):
        assert f"\n  {command}" in result.stdout or f" {command} " in result.stdout
    code = (
        "import sys; from webdata_nb.__main__ import build_parser; build_parser(); "
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=CHECKOUT, check=True
    ).stdout.split()
    assert not {"asyncio", "pandas", "pyarrow", "httpx", "starlette", "pydantic"} & set(loaded)


def test_version_option(shell: Shell) -> None:
    assert shell.run("--version").stdout == f"webdata {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("fetch",),
        ("crawl",),
        ("crawl", "http://127.0.0.1/", "--max-pages", "many"),
        ("crawl", "http://127.0.0.1/", "--crawl-strategy", "zigzag"),
        ("crawl", "http://127.0.0.1/", "--header", "no separator"),
        ("crawl", "http://127.0.0.1/", "--cookie", "=x"),
        ("crawl", "http://127.0.0.1/", "--extract", "{"),
        ("crawl", "http://127.0.0.1/", "--extract", "@no such file"),
        ("serve", "--mode", "both"),
        ("cache",),
        ("cache", "clear", "--op", "map"),
    ],
)
def test_wrong_usage_exits_with_2(shell: Shell, words: tuple[str, ...]) -> None:
    result = shell.call(*words)
    assert result.returncode == 2
    assert "--help` shows the usage" in result.stderr
    assert len(result.stderr.splitlines()) <= 6
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("crawl", "nowhere"), "url must be an absolute http:// or https:// URL"),
        (("crawl", "http://a.test/", "--max-pages", "0"), "max_pages must be a whole number"),
        (("crawl", "http://a.test/", "--out", "rows.txt"), "out must end in .parquet, .jsonl"),
        (("crawl", "http://a.test/", "--formats", "pdf"), "formats must be"),
        (("search", " "), "query must"),
        (("search", "x", "--num-results", "51"), "num_results must"),
        (("cache", "clear", "--older-than", "-1"), "older_than must"),
        (("jobs", "--limit", "0"), "limit must"),
        (("crawl", "http://a.test/", "--base-url", "ftp://x"), "base_url"),
        (("serve", "--user-agent", "/1.0"), "user_agent (WEBDATA_USER_AGENT) must begin"),
        (("serve", "--proxy", "ftp://ann:canary@x"), "proxy (WEBDATA_PROXY) must be a proxy's URL"),
        (("serve", "--proxy", "http://ann:canary@:80"), "proxy (WEBDATA_PROXY) must be a proxy's"),
        (("serve", "--ca-bundle", "/no/such/file"), "ca_bundle (WEBDATA_CA_BUNDLE) must be a file"),
    ],
)
def test_wrong_value_is_one_line_with_allowed_values(
    shell: Shell, words: tuple[str, ...], message: str
) -> None:
    result = shell.call(*words)
    assert result.returncode == 2
    assert message in one_line(result.stderr)
    assert "canary" not in result.stderr
    assert not result.stdout
    assert not list(shell.home.iterdir()), "no service was started"


@pytest.mark.parametrize(
    ("name", "value"), [("WEBDATA_PROXY", "canary:canary@x"), ("WEBDATA_CA_BUNDLE", "no/such.pem")]
)
def test_wrong_egress_variable_starts_no_service(shell: Shell, name: str, value: str) -> None:
    result = shell.call("crawl", "http://a.test/", **{name: value})
    assert result.returncode == 2
    assert f"({name}) must be" in one_line(result.stderr)
    assert "canary" not in result.stderr
    assert not list(shell.home.iterdir())


def test_wrong_variable_is_one_line_with_its_name(shell: Shell) -> None:
    for words in (("cache", "path"), ("crawl", "http://a.test/"), ("stop",)):
        result = shell.call(*words, WEBDATA_OFFLINE="perhaps")
        assert result.returncode == 2
        assert "WEBDATA_OFFLINE" in one_line(result.stderr)


# Requests


@pytest.fixture
def rejecting_service(site: Site) -> Site:
    """Return a service that rejects and records every request."""
    for path in ("/v1/crawl", "/v1/search"):
        site.page(
            path, '{"detail": "no"}', status=422, headers={"Content-Type": "application/json"}
        )
    return site


def sent_body(service: Site, path: str) -> object:
    [hit] = service.hits(path)
    assert hit.headers["Authorization"] == "Bearer k3y"
    return json.loads(hit.body)


def test_crawl_flags_become_request_fields(shell: Shell, rejecting_service: Site) -> None:
    schema = shell.home / "extract.json"
    schema.write_text('{"prompt": "the price"}')
    flags = shlex.split(
        "--max-pages 7 --max-depth 2 --concurrency 3 --crawl-strategy dfs --allow-external-links "
        "--no-respect-robots-txt --include-path /a/** --include-path /b --exclude-path /a/x "
        "--filter-faceted-urls --sitemap --llms-txt --respect-nofollow "
        "--formats markdown,links --no-only-main-content --wait-for '#done' --page-timeout 5000 "
        "--mobile --mobile-device phone --include-tag main --exclude-tag nav --exclude-tag .ad "
        "--render --cookie a=b=c --header X-A:1"
    )
    more = ("--header", "X-B: two words", "--extract", f"@{schema}")
    options = ("--format-options", '{"markdown": {"mode": "full"}}')
    base_url = rejecting_service.url.rstrip("/")
    result = shell.call(
        *("crawl", "http://a.test/x", *flags, *more, *options, "--base-url", base_url),
        WEBDATA_API_KEY="k3y",
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "no" in one_line(result.stderr)
    assert sent_body(rejecting_service, "/v1/crawl") == {
        "url": "http://a.test/x",
        "max_pages": 7,
        "max_depth": 2,
        "concurrency": 3,
        "crawl_strategy": "dfs",
        "allow_external_links": True,
        "respect_robots_txt": False,
        "include_paths": ["/a/**", "/b"],
        "exclude_paths": ["/a/x"],
        "filter_faceted_urls": True,
        "sitemap": True,
        "llms_txt": True,
        "respect_nofollow": True,
        "scrape_options": {
            "formats": ["markdown", "links"],
            "only_main_content": False,
            "wait_for": "#done",
            "timeout": 5000,
            "mobile": True,
            "mobile_device": "phone",
            "include_tags": ["main"],
            "exclude_tags": ["nav", ".ad"],
            "render": True,
            "cookies": {"a": "b=c"},
            "headers": {"X-A": "1", "X-B": "two words"},
            "extract": {"prompt": "the price"},
            "format_options": {"markdown": {"mode": "full"}},
        },
    }


@pytest.mark.parametrize(
    ("flag", "sent_as"), [("--render", True), ("--no-render", False), ("--render-auto", "auto")]
)
def test_render_flags(
    shell: Shell, rejecting_service: Site, flag: str, sent_as: bool | Literal["auto"]
) -> None:
    shell.call(
        "crawl", flag, "http://a.test/", "--base-url", rejecting_service.url, WEBDATA_API_KEY="k3y"
    )
    expected = {"url": "http://a.test/", "scrape_options": {"render": sent_as}}
    assert sent_body(rejecting_service, "/v1/crawl") == expected


def test_omitted_flags_are_not_sent(shell: Shell, rejecting_service: Site) -> None:
    environ = {"WEBDATA_BASE_URL": rejecting_service.url, "WEBDATA_API_KEY": "k3y"}
    shell.call("crawl", "http://a.test/", **environ)
    shell.call("search", "a query", **environ)
    assert sent_body(rejecting_service, "/v1/crawl") == {"url": "http://a.test/"}
    assert sent_body(rejecting_service, "/v1/search") == {"query": "a query"}


def test_search_flags_become_request_fields(shell: Shell, rejecting_service: Site) -> None:
    flags = shlex.split(
        "--num-results 3 --engine engine_two --language pt-BR --country br --safe-search "
        "--formats links --no-mobile --base-url"
    )
    shell.call("search", "dois mundos", *flags, rejecting_service.url, WEBDATA_API_KEY="k3y")
    assert sent_body(rejecting_service, "/v1/search") == {
        "query": "dois mundos",
        "num_results": 3,
        "engine": "engine_two",
        "language": "pt-BR",
        "country": "br",
        "safe_search": True,
        "formats": ["links"],
        "mobile": False,
    }


def test_empty_formats_are_sent(shell: Shell, rejecting_service: Site) -> None:
    shell.call(
        "search", "x", "--formats", "", "--base-url", rejecting_service.url, WEBDATA_API_KEY="k3y"
    )
    assert sent_body(rejecting_service, "/v1/search?wait=1") == {"query": "x", "formats": []}


def test_api_key_is_never_printed(shell: Shell, site: Site) -> None:
    environ = {"WEBDATA_BASE_URL": site.url, "WEBDATA_API_KEY": "k3y"}
    result = shell.run("crawl", "http://a.test/", **environ, WEBDATA_LOG="debug")
    assert result.returncode == 1
    assert "k3y" not in result.stdout + result.stderr


# Results


def test_crawl_prints_table_and_receipt(served: Shell, site: Site) -> None:
    result = served.call("crawl", three_pages(site))
    assert result.returncode == 0, result.stderr
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["url", "title", "status", "status_code", "depth"]
    assert [row.split()[:3] for row in rows] == [
        [site.at("/"), "One", "completed"],
        [site.at("/two"), "Two", "completed"],
        [site.at("/three"), "Three", "completed"],
    ]
    assert "3 rows" in result.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_crawl_writes_file(served: Shell, site: Site, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"rows{suffix}"
    result = served.run("crawl", three_pages(site), "--max-pages", "2", "--out", str(out))
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    rows = (
        pd.read_parquet(out).to_dict("records")
        if suffix == ".parquet"
        else [json.loads(line) for line in out.read_text().splitlines()]
    )
    assert [row["title"] for row in rows] == ["One", "Two"]
    assert "2 rows" in result.stderr
    assert str(out) in result.stderr


def test_search_finds_crawled_pages(served: Shell, site: Site) -> None:
    site.page("/", document("Zymurgy", text="Everything about zymurgy and yeast."))
    assert served.call("crawl", site.url).returncode == 0
    found = served.run("search", "zymurgy", "--formats", "", WEBDATA_ENGINE_ONE="local")
    assert found.returncode == 0, found.stderr
    assert site.url in found.stdout
    assert found.stdout.split()[:3] == ["rank", "title", "url"]


def test_page_cannot_send_control_characters_to_terminal(served: Shell, site: Site) -> None:
    url = site.page("/", document("a\x1b]0;owned\x07\x1b[2Jb\u202ec"))
    result = served.call("crawl", url)
    assert result.returncode == 0, result.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(result.stdout + result.stderr)


def test_failed_job_is_one_line_with_reason(served: Shell, site: Site) -> None:
    url = site.url
    site.close()
    result = served.call("crawl", url)
    assert (result.returncode, result.stdout) == (1, "")
    assert "could not be reached" in one_line(result.stderr)


def test_unreachable_service_is_one_line(shell: Shell, site: Site) -> None:
    url = site.url
    site.close()
    result = shell.call("jobs", "--base-url", url, WEBDATA_API_KEY="k3y")
    assert (result.returncode, result.stdout) == (1, "")
    assert url.rstrip("/") in one_line(result.stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX signal")
def test_interrupt_cancels_job(served: Shell, site: Site) -> None:
    url = site.page("/", document("One"))
    with site.hold("/"), served.start("crawl", url) as process:
        site.wait_for("/", timeout=TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "webdata: interrupted"
    assert "Traceback" not in err
    deadline = time.monotonic() + TIMEOUT_S  # the service may confirm it after the command's end
    while "running" in (jobs := served.call("jobs", "--limit", "1")).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "cancelled" in jobs.stdout
    assert url in jobs.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
@pytest.mark.slow
def test_closed_output_prints_no_error(served: Shell) -> None:
    process = served.start("cache", "path")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    process.wait(TIMEOUT_S)
    assert not err


# Cache


@pytest.mark.slow
def test_cache_commands(served: Shell, site: Site) -> None:
    assert served.run("crawl", three_pages(site)).returncode == 0
    directory = Path(served.run("cache", "path").stdout.strip())
    assert directory.is_relative_to(served.home)
    assert site.url in served.run("cache", "ls").stdout
    on_disk = sum(file.stat().st_size for file in directory.rglob("*.parquet"))
    assert int(served.run("cache", "size").stdout) == on_disk
    offline = served.run("crawl", site.url, "--offline")
    assert "Three" in offline.stdout
    cleared = served.run("cache", "clear", "--op", "crawl")
    assert "removed" in cleared.stderr
    assert site.url not in served.run("cache", "ls").stdout
    assert not list((directory / "v1" / "crawl").rglob("*.parquet"))
    assert served.run("cache", "clear").returncode == 0
    assert served.run("cache", "ls").stdout == "no rows\n"
    assert served.run("crawl", site.url, "--offline").returncode == 1


# Service


@pytest.mark.slow
def test_stop_reports_whether_service_ran(shell: Shell) -> None:
    assert shell.call("stop").stderr == "webdata: no local service runs\n"
    with shell.serving() as service:
        result = shell.run("stop")
        assert (result.returncode, result.stderr) == (0, "webdata: stopped the local service\n")
        assert service.wait(TIMEOUT_S) == 0


@pytest.mark.slow
def test_stop_takes_data_directory(shell: Shell) -> None:
    data_dir = shell.home / "elsewhere"
    with shell.serving("--data-dir", str(data_dir)) as service:
        assert "no local service" in shell.run("stop").stderr
        assert "stopped" in shell.run("stop", "--data-dir", str(data_dir)).stderr
        assert service.wait(TIMEOUT_S) == 0


@pytest.mark.slow
def test_second_service_of_directory_fails(shell: Shell) -> None:
    with shell.serving() as first:
        second = shell.run("serve")
        assert second.returncode == 1
        assert "webdata stop" in second.stderr
        assert first.poll() is None


@pytest.mark.slow
def test_local_mode_listens_on_loopback_only(shell: Shell) -> None:
    result = shell.run("serve", "--host", "0.0.0.0")
    assert result.returncode == 1
    assert "loopback" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--allow-network", "10.0.0.1/8"), "--allow-network takes a network"),
        (("--ca-bundle", __file__), "--ca-bundle (WEBDATA_CA_BUNDLE) takes a file"),
    ],
)
def test_unusable_egress_option_fails_at_start(
    shell: Shell, words: tuple[str, ...], message: str
) -> None:
    result = shell.run("serve", "--mode", "team", *words)
    assert result.returncode == 1
    assert message in one_line(result.stderr)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX signal")
def test_serve_exits_with_0_on_signal(shell: Shell) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with shell.serving() as service:
            service.send_signal(number)
            assert service.wait(TIMEOUT_S) == 0


@pytest.mark.slow
def test_crawl_leaves_no_service_after_stop(shell: Shell, site: Site) -> None:
    assert shell.run("crawl", three_pages(site)).returncode == 0
    # The service lingers for two seconds after its last client, or is gone already.
    shell.run("stop")
    assert "no local service" in shell.run("stop").stderr
