"""The `webdata` command, as a shell runs it."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd
import pytest

from tests.site.document import document
from webdata_nb import __version__, session
from webdata_nb.cli.main import main
from webdata_nb.settings import options

if TYPE_CHECKING:
    from tests.site.server import Site

CHECKOUT = Path(__file__).resolve().parent.parent
PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands with a home of their own."""

    home: Path

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "webdata_nb", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
            env=os.environ | {"WEBDATA_HOME": str(self.home)} | environ,
        )

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with self.start(*words, **environ) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def call(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, which spares the start of another."""
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(io.StringIO()) as out,
            redirect_stderr(io.StringIO()) as err,
        ):
            patch.setattr(session._DEFAULT, "connection", None)
            patch.setattr(warnings, "formatwarning", warnings.formatwarning)
            patch.setattr(options, "base_url", None)
            for name, value in {"WEBDATA_HOME": str(self.home), **environ}.items():
                patch.setenv(name, value)
            try:
                code = main(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            if session._DEFAULT.connection is not None:
                session._DEFAULT.connection.close()
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    @contextmanager
    def serving(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run the service in the foreground, until the block ends."""
        with self.start("serve", *words) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    if "serves http://" in line:
                        break
                yield process
            finally:
                process.terminate()
                process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Give a shell whose local service runs all the while."""
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


# usage


def test_help_lists_the_commands_and_is_fast_to_load(shell: Shell) -> None:
    done = shell.run("--help")
    assert done.returncode == 0
    for command in ("demo", "crawl", "search", "jobs", "cache", "serve", "stop"):
        assert f"\n  {command}" in done.stdout or f" {command} " in done.stdout
    code = (
        "import sys; from webdata_nb.cli.main import build_parser; build_parser(); "
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=CHECKOUT, check=True
    ).stdout.split()
    assert not {"pandas", "pyarrow", "httpx", "starlette", "pydantic"} & set(loaded)


def test_version_is_the_packages(shell: Shell) -> None:
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
def test_wrong_usage_is_exit_code_2(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell.call(*words)
    assert done.returncode == 2
    assert "usage: webdata" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("crawl", "nowhere"), "url must be an absolute http:// or https:// URL"),
        (("crawl", "http://a.test/", "--max-pages", "0"), "max_pages must be a whole number"),
        (("crawl", "http://a.test/", "--out", "rows.csv"), "out must end in .parquet or .jsonl"),
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
def test_a_wrong_value_is_one_line_that_says_what_is_allowed(
    shell: Shell, words: tuple[str, ...], message: str
) -> None:
    done = shell.call(*words)
    assert done.returncode == 2
    assert message in one_line(done.stderr)
    assert "canary" not in done.stderr
    assert not done.stdout
    assert not list(shell.home.iterdir()), "nothing was started"


@pytest.mark.parametrize(
    ("name", "value"), [("WEBDATA_PROXY", "canary:canary@x"), ("WEBDATA_CA_BUNDLE", "no/such.pem")]
)
def test_a_way_out_that_is_none_starts_nothing(shell: Shell, name: str, value: str) -> None:
    done = shell.call("crawl", "http://a.test/", **{name: value})
    assert done.returncode == 2
    assert f"({name}) must be" in one_line(done.stderr)
    assert "canary" not in done.stderr
    assert not list(shell.home.iterdir())


def test_a_wrong_variable_is_one_line_that_names_it(shell: Shell) -> None:
    for words in (("cache", "path"), ("crawl", "http://a.test/"), ("stop",)):
        done = shell.call(*words, WEBDATA_OFFLINE="perhaps")
        assert done.returncode == 2
        assert "WEBDATA_OFFLINE" in one_line(done.stderr)


# what is sent


@pytest.fixture
def service(site: Site) -> Site:
    """Give a service that refuses every start, and records it."""
    for path in ("/v1/crawl", "/v1/search"):
        site.page(
            path, '{"detail": "no"}', status=422, headers={"Content-Type": "application/json"}
        )
    return site


def sent(service: Site, path: str) -> object:
    [hit] = service.hits(path)
    assert hit.headers["Authorization"] == "Bearer k3y"
    return json.loads(hit.body)


def test_crawl_flags_become_the_contracts_fields(shell: Shell, service: Site) -> None:
    schema = shell.home / "extract.json"
    schema.write_text('{"prompt": "the price"}')
    flags = shlex.split(
        "--max-pages 7 --max-depth 2 --concurrency 3 --crawl-strategy dfs --allow-external-links "
        "--no-respect-robots-txt --include-path /a/** --include-path /b --exclude-path /a/x "
        "--filter-faceted-urls --sitemap --respect-nofollow --formats markdown,links "
        "--no-only-main-content --wait-for '#done' --page-timeout 5000 --mobile "
        "--mobile-device phone --include-tag main --exclude-tag nav --exclude-tag .ad "
        "--render --cookie a=b=c --header X-A:1"
    )
    more = ("--header", "X-B: two words", "--extract", f"@{schema}")
    options = ("--format-options", '{"markdown": {"mode": "full"}}')
    base_url = service.url.rstrip("/")
    done = shell.call(
        *("crawl", "http://a.test/x", *flags, *more, *options, "--base-url", base_url),
        WEBDATA_API_KEY="k3y",
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "no" in one_line(done.stderr)
    assert sent(service, "/v1/crawl") == {
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
def test_each_way_to_render(
    shell: Shell, service: Site, flag: str, sent_as: bool | Literal["auto"]
) -> None:
    shell.call("crawl", flag, "http://a.test/", "--base-url", service.url, WEBDATA_API_KEY="k3y")
    asked = {"url": "http://a.test/", "scrape_options": {"render": sent_as}}
    assert sent(service, "/v1/crawl") == asked


def test_what_is_not_given_is_not_sent(shell: Shell, service: Site) -> None:
    named = {"WEBDATA_BASE_URL": service.url, "WEBDATA_API_KEY": "k3y"}
    shell.call("crawl", "http://a.test/", **named)
    shell.call("search", "a query", **named)
    assert sent(service, "/v1/crawl") == {"url": "http://a.test/"}
    assert sent(service, "/v1/search") == {"query": "a query"}


def test_search_flags_become_the_contracts_fields(shell: Shell, service: Site) -> None:
    flags = shlex.split(
        "--num-results 3 --engine engine_two --language pt-BR --country br --safe-search "
        "--formats links --no-mobile --base-url"
    )
    shell.call("search", "dois mundos", *flags, service.url, WEBDATA_API_KEY="k3y")
    assert sent(service, "/v1/search") == {
        "query": "dois mundos",
        "num_results": 3,
        "engine": "engine_two",
        "language": "pt-BR",
        "country": "br",
        "safe_search": True,
        "formats": ["links"],
        "mobile": False,
    }


def test_no_formats_means_discovery_only(shell: Shell, service: Site) -> None:
    shell.call("search", "x", "--formats", "", "--base-url", service.url, WEBDATA_API_KEY="k3y")
    assert sent(service, "/v1/search?wait=1") == {"query": "x", "formats": []}


def test_a_key_is_never_printed(shell: Shell, site: Site) -> None:
    named = {"WEBDATA_BASE_URL": site.url, "WEBDATA_API_KEY": "k3y"}
    done = shell.run("crawl", "http://a.test/", **named, WEBDATA_LOG="debug")
    assert done.returncode == 1
    assert "k3y" not in done.stdout + done.stderr


# what comes back


def test_crawl_prints_a_table_and_its_receipt(served: Shell, site: Site) -> None:
    done = served.run("crawl", three_pages(site))
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["url", "title", "status", "status_code", "depth"]
    assert [row.split()[:3] for row in rows] == [
        [site.at("/"), "One", "completed"],
        [site.at("/two"), "Two", "completed"],
        [site.at("/three"), "Three", "completed"],
    ]
    assert "3 rows" in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_crawl_writes_a_file(served: Shell, site: Site, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"rows{suffix}"
    done = served.run("crawl", three_pages(site), "--max-pages", "2", "--out", str(out))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    rows = (
        pd.read_parquet(out).to_dict("records")
        if suffix == ".parquet"
        else [json.loads(line) for line in out.read_text().splitlines()]
    )
    assert [row["title"] for row in rows] == ["One", "Two"]
    assert "2 rows" in done.stderr
    assert str(out) in done.stderr


def test_search_answers_from_what_was_crawled(served: Shell, site: Site) -> None:
    site.page("/", document("Zymurgy", text="Everything about zymurgy and yeast."))
    assert served.run("crawl", site.url).returncode == 0
    found = served.run("search", "zymurgy", "--formats", "", WEBDATA_ENGINE_ONE="local")
    assert found.returncode == 0, found.stderr
    assert site.url in found.stdout
    assert found.stdout.split()[:3] == ["rank", "title", "url"]


def test_a_page_cannot_steer_the_terminal(served: Shell, site: Site) -> None:
    url = site.page("/", document("a\x1b]0;owned\x07\x1b[2Jb\u202ec"))
    done = served.run("crawl", url)
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)


def test_a_failed_job_is_one_line_with_the_reason(served: Shell, site: Site) -> None:
    url = site.url
    site.close()
    done = served.run("crawl", url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "could not be reached" in one_line(done.stderr)


def test_an_unreachable_service_is_one_line(shell: Shell, site: Site) -> None:
    url = site.url
    site.close()
    done = shell.call("jobs", "--base-url", url, WEBDATA_API_KEY="k3y")
    assert (done.returncode, done.stdout) == (1, "")
    assert url.rstrip("/") in one_line(done.stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX signal")
def test_an_interrupt_cancels_the_job(served: Shell, site: Site) -> None:
    url = site.page("/", document("One"))
    with site.hold("/"), served.start("crawl", url) as process:
        site.wait_for("/", timeout=PATIENCE_S)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "webdata: interrupted"
    assert "Traceback" not in err
    jobs = served.run("jobs", "--limit", "1")
    assert "cancelled" in jobs.stdout
    assert url in jobs.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_reader_that_has_had_enough_is_no_error_message(served: Shell) -> None:
    process = served.start("cache", "path")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    process.wait(PATIENCE_S)
    assert not err


# the cache


@pytest.mark.slow
def test_the_cache_is_listed_measured_and_cleared(served: Shell, site: Site) -> None:
    assert served.run("crawl", three_pages(site)).returncode == 0
    where = Path(served.run("cache", "path").stdout.strip())
    assert where.is_relative_to(served.home)
    assert site.url in served.run("cache", "ls").stdout
    on_disk = sum(file.stat().st_size for file in where.rglob("*.parquet"))
    assert int(served.run("cache", "size").stdout) == on_disk
    offline = served.run("crawl", site.url, "--offline")
    assert "Three" in offline.stdout
    cleared = served.run("cache", "clear", "--op", "crawl")
    assert "removed" in cleared.stderr
    assert site.url not in served.run("cache", "ls").stdout
    assert not list((where / "v1" / "crawl").rglob("*.parquet"))
    assert served.run("cache", "clear").returncode == 0
    assert served.run("cache", "ls").stdout == "no rows\n"
    assert served.run("crawl", site.url, "--offline").returncode == 1


# the service


def test_stop_says_whether_a_service_ran(shell: Shell) -> None:
    assert shell.run("stop").stderr == "webdata: no local service runs\n"
    with shell.serving() as service:
        done = shell.run("stop")
        assert (done.returncode, done.stderr) == (0, "webdata: stopped the local service\n")
        assert service.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_stop_takes_a_data_directory(shell: Shell) -> None:
    data_dir = shell.home / "elsewhere"
    with shell.serving("--data-dir", str(data_dir)) as service:
        assert "no local service" in shell.run("stop").stderr
        assert "stopped" in shell.run("stop", "--data-dir", str(data_dir)).stderr
        assert service.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_only_one_service_serves_a_directory(shell: Shell) -> None:
    with shell.serving() as first:
        second = shell.run("serve")
        assert second.returncode == 1
        assert "webdata stop" in second.stderr
        assert first.poll() is None


@pytest.mark.slow
def test_local_mode_serves_nobody_else(shell: Shell) -> None:
    done = shell.run("serve", "--host", "0.0.0.0")
    assert done.returncode == 1
    assert "loopback" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--allow-network", "10.0.0.1/8"), "--allow-network takes a network"),
        (("--ca-bundle", __file__), "--ca-bundle (WEBDATA_CA_BUNDLE) takes a file"),
    ],
)
def test_a_way_out_that_cannot_be_taken_is_said_at_the_start(
    shell: Shell, words: tuple[str, ...], message: str
) -> None:
    done = shell.run("serve", "--mode", "team", *words)
    assert done.returncode == 1
    assert message in one_line(done.stderr)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX signal")
def test_serve_ends_well_when_asked_to(shell: Shell) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with shell.serving() as service:
            service.send_signal(number)
            assert service.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_the_command_leaves_no_process_behind(shell: Shell, site: Site) -> None:
    assert shell.run("crawl", three_pages(site)).returncode == 0
    # The service lingers for two seconds after its last client, or is gone already.
    shell.run("stop")
    assert "no local service" in shell.run("stop").stderr
