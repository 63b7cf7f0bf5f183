"""What commands print: tables that fit the terminal, and formats for pipes."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.preloaded import start_command
from tests.shell import CHECKOUT, TIMEOUT_S, Shell
from tests.site.document import document
from webdata_nb.cli.output import (
    TextColumn,
    markdown_table,
    plain_table,
    shorten_end,
    shorten_middle,
)
from webdata_nb.toolkit.frames.exports import read_csv_export

if TYPE_CHECKING:
    from tests.site.server import Site

LONG_PATH = f"/{'x' * 90}"
LONG_URL = "https://example.com/a/very/long/path/to/some/page/index.html?with=parameters"
COLUMNS = [
    TextColumn("rank", ["1", "10"], is_number=True),
    TextColumn("title", ["Short", "A title that is much longer than any terminal column"]),
    TextColumn("url", [LONG_URL, "https://b.test/"]),
    TextColumn("job_id", ["8a8861c2-fef2-46da-80e0-0b9e43cc0d60"] * 2),
]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_table_fits_its_width(width: int) -> None:
    lines = plain_table(COLUMNS, width).splitlines()
    assert len(lines) == 3
    assert max(map(cell_len, lines)) <= width


def test_numbers_are_on_the_right_and_texts_on_the_left() -> None:
    head, first, second = plain_table(COLUMNS, 120).splitlines()
    assert (head[:6], first[:6], second[:6]) == ("rank  ", "   1  ", "  10  ")
    assert head.index("title") == first.index("Short") == second.index("A title")


def test_urls_are_cut_in_the_middle_titles_at_the_end_and_ids_never() -> None:
    _, first, second = plain_table(COLUMNS, 100).splitlines()
    url = next(word for word in first.split() if "…" in word)
    start, _, end = url.partition("…")
    assert LONG_URL.startswith(start)
    assert LONG_URL.endswith(end)
    assert second.partition("…")[0].endswith(tuple("abcdefghijklmnopqrstuvwxyz"))
    assert "8a8861c2-fef2-46da-80e0-0b9e43cc0d60" in first


def test_table_without_a_width_cuts_nothing() -> None:
    printed = plain_table(COLUMNS, None)
    assert "…" not in printed
    assert LONG_URL in printed


@pytest.mark.parametrize("cut", [shorten_end, shorten_middle])
@pytest.mark.parametrize(
    "text", ["plain text of some length", "日本語のタイトルはとても長い", "a日b本c語d"]
)
def test_cut_text_is_never_wider_than_allowed(cut: object, text: str) -> None:
    assert callable(cut)
    for width in range(40):
        assert cell_len(cut(text, width)) <= width
        assert (cut(text, width) == text) == (cell_len(text) <= width)


def test_wide_characters_keep_the_table_in_its_width() -> None:
    columns = [
        TextColumn("title", ["日本語のタイトル" * 5]),
        TextColumn("depth", ["1"], is_number=True),
    ]
    assert max(map(cell_len, plain_table(columns, 40).splitlines())) <= 40


def test_markdown_escapes_cells() -> None:
    columns = [TextColumn("title", ["a | b <i>"]), TextColumn("depth", ["1"], is_number=True)]
    assert markdown_table(columns).splitlines() == [
        "| title | depth |",
        "| --- | --: |",
        "| a \\| b &lt;i> | 1 |",
    ]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("output"))
    with shell.serving():
        yield shell


def two_pages(site: Site) -> str:
    site.page("/two", document("=HYPERLINK(1)", text="Line\u2028separator"))
    return site.page("/", document("One", links=["/two"]))


def test_standard_output_is_json_alone(served: Shell, site: Site) -> None:
    result = served.run("crawl", two_pages(site), "--format", "json")
    rows = json.loads(result.stdout)
    assert [row["title"] for row in rows] == ["One", "=HYPERLINK(1)"]
    assert rows[0]["status_code"] == 200
    assert "2 rows" in result.stderr


def test_standard_output_is_csv_alone(served: Shell, site: Site, tmp_path: Path) -> None:
    result = served.call("crawl", two_pages(site), "--format", "csv")
    head, *rows = csv.reader(io.StringIO(result.stdout))
    assert [dict(zip(head, row, strict=True))["title"] for row in rows] == ["One", "'=HYPERLINK(1)"]
    (tmp_path / "rows.csv").write_text(result.stdout)
    assert read_csv_export(tmp_path / "rows.csv")["title"].tolist() == ["One", "=HYPERLINK(1)"]


def test_unknown_format_is_wrong_usage(served: Shell) -> None:
    result = served.call("jobs", "--format", "xml")
    assert result.returncode == 2
    assert "'table', 'csv', 'json', 'markdown'" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
@pytest.mark.parametrize("output_format", ["table", pytest.param("json", marks=pytest.mark.slow)])
def test_closed_pipe_ends_quietly(served: Shell, site: Site, output_format: str) -> None:
    url = site.page("/", document("Large", text="word " * 60_000))
    with served.start("crawl", url, "--format", output_format) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        process.wait(TIMEOUT_S)
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal")
@pytest.mark.parametrize("width", [60, pytest.param(100, marks=pytest.mark.slow)])
def test_table_fits_a_terminal(served: Shell, site: Site, width: int) -> None:
    site.page(LONG_PATH, document("A long title " * 10))
    url = site.page("/", document("One", links=[LONG_PATH]))
    lines = in_terminal(served, width, "crawl", url, "--format", "table")
    assert lines[0].split() == ["url", "title", "status", "status_code", "depth"]
    assert max(map(len, lines)) <= width
    assert "…" in lines[2]


def in_terminal(shell: Shell, width: int, *words: str) -> list[str]:
    """Return the lines that a command prints on a terminal of this width; drop its progress."""
    import fcntl  # noqa: PLC0415 - POSIX only
    import pty  # noqa: PLC0415
    import termios  # noqa: PLC0415

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environ = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    process = start_command(
        *words,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=CHECKOUT,
        env=environ | {"WEBDATA_HOME": str(shell.home)},
    )
    os.close(theirs)
    received = b""
    try:
        while piece := os.read(ours, 65536):
            received += piece
    except OSError:
        pass  # Linux ends a closed terminal with an error
    finally:
        os.close(ours)
        assert process.wait(TIMEOUT_S) == 0
    return received.decode().splitlines()


def test_completion_scripts_know_commands_and_flags(served: Shell) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = served.call("completion", shell).stdout
        for word in ("crawl", "max-pages", "markdown", "cache"):
            assert word in script, shell


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_values(served: Shell, tmp_path: Path) -> None:
    script = tmp_path / "webdata.bash"
    script.write_text(served.call("completion", "bash").stdout)
    code = f"source {script}\n" + "".join(
        f"COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); "
        "_shtab_webdata; echo ${COMPREPLY[@]}\n"
        for words in ("webdata cra", "webdata jobs --format js")
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["crawl", "json"], done.stderr


ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.slow
@pytest.mark.parametrize("environ", ENCODINGS.values(), ids=ENCODINGS)
def test_output_is_readable_in_any_encoding(
    served: Shell, site: Site, environ: dict[str, str]
) -> None:
    title = "Łabędź → 日本"
    url = site.page("/", document(title))
    table = served.run("crawl", url, **environ, WEBDATA_PROGRESS="bar")
    assert (table.returncode, "Labedz -> ??" in table.stdout) == (0, True), table.stderr
    assert "\\u" not in table.stderr
    printed = served.run("crawl", url, "--format", "json", **environ)
    assert json.loads(printed.stdout)[0]["title"] == title
    script = f"""
        from webdata_nb.toolkit.terminal_text import encodable
        from webdata_nb.toolkit.frames.frame import CallReceipt
        print(CallReceipt(line={title!a} + "x" * 999), encodable("\\ud83d"))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | environ,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"Labedz -> ??xxx" in done.stdout) == (0, True), done.stderr
