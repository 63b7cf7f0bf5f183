"""Wrong inputs print at most six lines, which contain the value and the remedy.

Each one runs in a real IPython shell, as in a notebook, or as a command.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from starlette.responses import HTMLResponse, Response
from traitlets.config import Config

import webdata_nb
from tests.api.receipts import SECRET, SITE
from tests.wire_service import JobScript, WireService, crawl_rows
from webdata_nb import options, settings
from webdata_nb.__main__ import main
from webdata_nb.toolkit import session as connections
from webdata_nb.toolkit.api import Session

MAX_LINES: Final = 6
COLUMNS: Final = 100

# The cell, what its output shows of the input, and of the remedy.
CELLS: Final[list[tuple[str, str, str]]] = [
    ("crawl_df('site.test/docs')", "'site.test/docs'", "did you mean https://site.test/docs?"),
    ("crawl_df('htps://site.test')", "'htps://site.test'", "did you mean https://site.test?"),
    ("crawl_df('localhost:8000')", "'localhost:8000'", "did you mean http://localhost:8000?"),
    ("crawl_df('ftp://site.test')", "'ftp://site.test'", "http:// or https:// URL"),
    ("crawl_df(None)", "None", "url is required"),
    ("crawl_df(frame)", "a DataFrame with a, b", 'did you mean a column, such as df["url"]?'),
    ("crawl_df([])", "an empty list", "at least one entry"),
    (f"crawl_df({{'{SITE}'}})", "a set", "use sorted(url)"),
    (f"crawl_df('{SITE}', max_pages=5000)", "5000", "from 1 to 1000"),
    (f"crawl_df('{SITE}', max_pages='10')", "'10'", "did you mean 10?"),
    (f"crawl_df('{SITE}', max_page=10)", "'max_page'", "did you mean 'max_pages'?"),
    (f"crawl_df('{SITE}', crawl_strategy='depth')", "'depth'", "'bfs', 'dfs' or 'bff'"),
    (f"crawl_df('{SITE}', include_paths='/docs/**')", "'/docs/**'", "did you mean ['/docs/**']?"),
    (
        f"crawl_df('{SITE}', include_paths=['{SITE}docs'])",
        f"'{SITE}docs'",
        "without scheme and host",
    ),
    (f"crawl_df('{SITE}', scrape_options={{'format': ['html']}})", "format ", "mean 'formats'?"),
    (f"crawl_df('{SITE}', scrape_options='html')", "'html'", "must be a dictionary"),
    (f"crawl_df('{SITE}', timeout=0)", "0", "more than 0 seconds, or None"),
    (f"crawl_df('{SITE}', out='pages.txt')", "'pages.txt'", "out must end in .parquet"),
    (f"crawl_df('{SITE}', on_error='rows')", "'rows'", "did you mean 'row'?"),
    (f"crawl_df('{SITE}', progress='panle')", "'panle'", "did you mean 'panel'?"),
    (f"crawl_df('{SITE}', 10)", "2 positional arguments", "call crawl_df(url, "),
    ("crawl_df()", "'url'", "call crawl_df(url, "),
    (f"crawl_df('{SITE}', offline=True)", SITE, "run it online once"),
    (f"crawl_df(['{SITE}', 'nowhere'], on_error='raise')", "'nowhere'", "input 2 of 2"),
    ("search_df('  ')", "'  '", "at least one character"),
    ("search_df('moss', formats=['markdwn'])", "'markdwn'", "did you mean 'markdown'?"),
    ("search_df('moss', formats='links')", "'links'", "did you mean ['links']?"),
    ("search_df('moss', engine='engine_on')", "'engine_on'", "did you mean 'engine_one'?"),
    ("search_df('moss', num_result=5)", "'num_result'", "did you mean 'num_results'?"),
    ("search_df('moss', country='Germany')", "'Germany'", 'such as "us", "gb" or "de"'),
    ("search_df('moss', headers={'Host': 'a'})", "'Host'", "headers: the header"),
    ("search_df('moss', extract={'promt': 'price'})", "promt", "did you mean 'prompt'?"),
    ("search_df('moss', extract={'price': 'float'})", "'float'", "did you mean float?"),
    ("search_df('moss', extract={'price': 'x'})", "'x'", "must be a type such as str, int, float"),
    ("search_df('moss', extract={'price': None})", "None", "must be a type such as str"),
    ("search_df('moss', extract={'prompt': 'p', 'price': 'float'})", "'price'", "into schema"),
    ("search_df('moss', limit=5)", "'limit'", "did you mean 'num_results'?"),
    (f"crawl_df('{SITE}', limit=5)", "'limit'", "did you mean 'max_pages'?"),
    (f"crawl_df('{SITE}', depth=5)", "'depth'", "did you mean 'max_depth'?"),
    (f"crawl_df('{SITE}', output='a.csv')", "'output'", "did you mean 'out'?"),
    (f"crawl_df('{SITE}', formats=['md'])", "'md'", "did you mean 'markdown'?"),
    (f"crawl_df('{SITE}', formats=['json'])", "'json'", "did you mean 'structured_data'?"),
    (f"scrape_df(url=['{SITE}'])", "'url'", "did you mean 'urls'?"),
    ("search_df(word for word in ())", "an empty list", "at least one entry"),
    ("options.engines.update({'engine1': ['brave']})", "'engine1'", "mean 'engine_one'?"),
    ("await asearch_df('moss', num_results=0)", "0", "from 1 to 50"),
    ("scrape_df(5)", "5", "a URL or a list of URLs"),
    ("creatives_df('AR 17')", "'AR 17'", '"AR17828074650563772417"'),
    ("creatives_df('AR17', date_range='last_week')", "'last_week'", "last_7_days"),
    ("options.progres = False", "'progres'", "did you mean 'progress'?"),
    ("options.progress = 'bars'", "'bars'", "did you mean 'bar'?"),
    ("options.base_url = 'data.test'", "'data.test'", "did you mean https://data.test?"),
    ("options.log = 'verbose'", "'verbose'", "'debug', 'info'"),
    ("options.tracebacks = 'long'", "'long'", "'short', 'full'"),
    ("connect(base_url='htp://data.test')", "'htp://data.test'", "mean http://data.test?"),
    ("connect(api_key='key-1')", "api_key", "give base_url as well"),
    ("connect(url='https://data.test')", "'url'", "did you mean 'base_url'?"),
    ("job('j-17')", "j-17", "jobs_df() lists the jobs"),
    ("job(17)", "17", "as in jobs_df()"),
    (f"why(frame, '{SITE}')", "a DataFrame with a, b", "what crawl_df returned"),
    ("why('j-17', 'site.test')", "'site.test'", "did you mean https://site.test?"),
    ("retry_failed(frame)", "a DataFrame with a, b", "a frame of search_df"),
    ("links_df(frame)", "a DataFrame with a, b", 'formats=["links"]'),
    ("diff(frame, frame, on='c')", "'c'", "columns of both frames"),
    ("diff(frame, frame, on='a', columns='bb')", "'bb'", "did you mean 'b'?"),
    ("estimate(jobs_df)", "jobs_df", "search_df, crawl_df"),
    ("webdata_nb.cache.clear('crawls')", "'crawls'", "did you mean 'crawl'?"),
    (f"%webcrawl {SITE} --max-pages 5000", "5000", "from 1 to 1000"),
    ("%webcrawl site.test", "'site.test'", "did you mean https://site.test?"),
    ("%websearch moss --engine other", "'other'", "engine_one"),
]
COMMANDS: Final[list[tuple[list[str], str, str]]] = [
    (["crawl", "site.test"], "'site.test'", "did you mean https://site.test?"),
    (["crawl", SITE, "--max-pages", "5000"], "5000", "from 1 to 1000"),
    (["crawl", SITE, "--formats", "markdwn"], "'markdwn'", "did you mean 'markdown'?"),
    (["crawl", SITE, "--max-pgs", "5"], "--max-pgs 5", "did you mean --max-pages?"),
    (["crawl", SITE, "--crawl-strategy", "bf"], "'bf'", "did you mean bfs?"),
    (["crawl", SITE, "--limit", "5"], "--limit 5", "did you mean --max-pages?"),
    (["craw", SITE], "'craw'", "did you mean crawl?"),
    (["crawl"], "URL", "`webdata crawl --help`"),
    (["search", "moss", "--country", "Germany"], "'Germany'", '"us", "gb" or "de"'),
]


@pytest.fixture
def shell(connected: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a shell with the public names, a frame of another origin, and a service."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    connections.set_default_connection(connected)
    config = Config(
        {"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}}
    )
    new: Any = InteractiveShell
    shell = new.instance(config=config)
    shell.push({name: getattr(webdata_nb, name) for name in webdata_nb.__all__})
    shell.push({"frame": pd.DataFrame({"a": [1], "b": [2]}), "webdata_nb": webdata_nb})
    shell.extension_manager.load_extension("webdata_nb")
    yield shell
    shell.extension_manager.unload_extension("webdata_nb")
    shell.history_manager.end_session()
    new.clear_instance()
    for name, value in vars_of(settings.Options()).items():
        setattr(options, name, value)


def vars_of(layer: settings.Options) -> dict[str, Any]:
    return {name: getattr(layer, name) for name in layer.__slots__}


def screen_lines(text: str) -> int:
    """Return the lines that a text takes on a screen of 100 columns."""
    lines = text.strip("\n").splitlines()
    return sum(max(1, math.ceil(len(line) / COLUMNS)) for line in lines)


def check(output: str, value: str, remedy: str) -> None:
    assert value in output
    assert remedy in output
    assert screen_lines(output) <= MAX_LINES, output
    assert "Traceback" not in output
    assert "site-packages" not in output


def test_the_list_is_long_enough() -> None:
    assert len(CELLS) + len(COMMANDS) >= 30


@pytest.mark.parametrize(("cell", "value", "remedy"), CELLS, ids=[cell for cell, _, _ in CELLS])
def test_a_cell_shows_the_value_and_the_remedy(
    shell: Any, capsys: pytest.CaptureFixture[str], cell: str, value: str, remedy: str
) -> None:
    result = shell.run_cell(cell, store_history=True)
    assert result.error_in_exec is not None
    check("".join(capsys.readouterr()), value, remedy)


@pytest.mark.parametrize(("arguments", "value", "remedy"), COMMANDS, ids=str)
@pytest.mark.usefixtures("connected")
def test_a_command_shows_the_value_and_the_remedy(
    capsys: pytest.CaptureFixture[str], arguments: list[str], value: str, remedy: str
) -> None:
    try:
        code: object = main(arguments)
    except SystemExit as end:
        code = end.code
    assert code == 2
    check("".join(capsys.readouterr()), value, remedy)


def test_the_message_names_the_line_of_the_call(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("def pages():\n    return crawl_df('nowhere')", store_history=True)
    shell.run_cell("1\npages()", store_history=True)
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0].startswith("InvalidArgument: url must be ")
    assert lines[1:] == ["Cell In[1], line 2"]


@pytest.mark.parametrize("switch", ["%tb", "options.tracebacks", "WEBDATA_TRACEBACKS"])
def test_the_whole_traceback_can_be_shown(
    shell: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    if switch == "WEBDATA_TRACEBACKS":
        monkeypatch.setenv(switch, "full")
    if switch == "options.tracebacks":
        options.tracebacks = "full"
    shell.run_cell("crawl_df('nowhere')")
    if switch == "%tb":
        assert "Traceback" not in capsys.readouterr().out
        shell.run_cell("%tb")
    output = capsys.readouterr().out
    assert "Traceback (most recent call last)" in output
    assert "build_request" in output
    assert output.rstrip().endswith("'nowhere'")


def test_a_long_message_is_its_beginning_and_its_end(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "\\n".join(f"line {number}" for number in range(30))
    shell.run_cell(f"raise errors.LocalServiceError('It ended.\\nThe end of the log:\\n{log}')")
    output = capsys.readouterr().out
    check(output, "LocalServiceError: It ended.", "line 29")
    assert "line 5" not in output


def test_no_output_repeats_a_secret(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for cell in (
        f"crawl_df('{SITE}', scrape_options={{'headers': '{SECRET}'}})",
        f"crawl_df('https://user:{SECRET}@site.test:99999/')",
        f"crawl_df('user:{SECRET}@site.test')",
        f"search_df('moss', cookies={{'session': '{SECRET};'}})",
        f"connect(base_url='https://user:{SECRET}@data.test', api_key='{SECRET}')",
        f"connect(api_key='{SECRET}')",
        f"crawl_job('{SITE}', webhook_url='{SECRET}')",
    ):
        assert shell.run_cell(cell).error_in_exec is not None
    output = "".join(capsys.readouterr())
    assert SECRET not in output
    assert len(output.strip().splitlines()) <= 7 * MAX_LINES


def test_another_server_is_named_with_its_answer(
    shell: Any, service: WireService, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(_path: str, _query: dict[str, str]) -> Response:
        return HTMLResponse("<title>Welcome to nginx!</title><p>It works.", 404)

    service.fault = other
    shell.run_cell("search_df('moss')")
    output = capsys.readouterr().out
    check(output, f"{service.url}/v1/search sent 404 text/html", "set base_url")
    assert "Welcome to nginx! It works." in output


def test_a_timeout_names_the_call_that_continues(
    shell: Any, service: WireService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.crawl = JobScript(crawl_rows(1), total=10, running=True)
    shell.run_cell(f"crawl_df('{SITE}', timeout=5)")
    job_id = next(iter(service.jobs))
    check(capsys.readouterr().out, "timeout=5", f'job("{job_id}").df()')


def test_a_script_ends_with_the_whole_message(tmp_path: Path) -> None:
    script = tmp_path / "analysis.py"
    script.write_text("from webdata_nb import crawl_df\ncrawl_df('site.test')\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert re.fullmatch(
        r"webdata_nb\.errors\.InvalidArgument: url .* did you mean https://site\.test\?",
        done.stderr.splitlines()[-1],
    )
