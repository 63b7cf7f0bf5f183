"""Documents show real output and name existing commands, options, modules and files."""

from __future__ import annotations

import doctest
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from docs.website import python_reference
from tests.wire_service import KEY, WireService
from webdata_nb import connect
from webdata_nb.__main__ import main
from webdata_nb.contract import outcomes

CHECKOUT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = [
    CHECKOUT / "README.md",
    CHECKOUT / "docs" / "tutorial.md",
    *(
        p
        for folder in ("guide", "recipes")
        for p in sorted((CHECKOUT / "docs" / folder).glob("*.md"))
    ),
]
BLOCK: Final = re.compile(r"^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Pages that exist in the documentation site only.
GENERATED_PAGES: Final = {
    "benchmarks.md",
    "reference/commands.md",
    "reference/http.md",
    *python_reference.PAGES,
}
COMMAND: Final = re.compile(r"(?:^|`)(?:\.venv/bin/)?(webdata [a-z-][^`\n#]*)", re.MULTILINE)
# Pages that name modules, below one of `ROOTS`. The dependencies name files of libraries too.
MODULE_PAGES: Final = [
    *sorted((CHECKOUT / "docs").glob("*.md")),
    *sorted((CHECKOUT / "docs" / "decisions").glob("*.md")),
]
MODULE: Final = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`")
ROOTS: Final = [
    CHECKOUT,
    CHECKOUT / "webdata_nb",
    CHECKOUT / "webdata_nb" / "service",
    CHECKOUT / "webdata_nb" / "page",
]
LINK: Final = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
OPTION: Final = re.compile(r"--[a-z][a-z-]*")
# 86 pages and a missing one; duplicates and filtered URLs have no row.
COUNTS: Final = {"duplicate": 2, "failed:http_404": 1, "fetched": 86, "folder": 12}


def commands() -> list[str]:
    """Return the distinct command lines in the README and the guide."""
    return sorted(
        {line.strip() for page in PAGES for line in COMMAND.findall(page.read_text("utf-8"))}
    )


@pytest.mark.parametrize("command", commands())
def test_documented_command_and_options_exist(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # The name of a command ends at its first argument or option.
    words = itertools.takewhile(re.compile(r"[a-z][a-z-]*").fullmatch, command.split()[1:])
    with pytest.raises(SystemExit) as exit_info:
        main([*words, "--help"])
    assert exit_info.value.code == 0
    documented_options = set(OPTION.findall(command))
    assert documented_options <= set(OPTION.findall(capsys.readouterr().out))


@pytest.mark.parametrize("page", MODULE_PAGES, ids=lambda page: page.stem)
def test_named_modules_exist(page: Path) -> None:
    names = set(MODULE.findall(page.read_text("utf-8")))
    assert [n for n in sorted(names) if not any((root / n).exists() for root in ROOTS)] == []


@pytest.mark.parametrize("page", [*PAGES, *MODULE_PAGES], ids=lambda page: page.stem)
def test_linked_files_exist(page: Path) -> None:
    links = set(LINK.findall(page.read_text("utf-8")))
    missing = {link for link in links if not (page.parent / link).exists()}
    generated = {CHECKOUT / "docs" / path for path in GENERATED_PAGES}
    assert [
        link for link in sorted(missing) if (page.parent / link).resolve() not in generated
    ] == []


def test_every_decision_is_in_the_index() -> None:
    folder = CHECKOUT / "docs" / "decisions"
    index = set(LINK.findall((folder / "README.md").read_text("utf-8")))
    assert {page.name for page in folder.glob("0*.md")} <= index


@pytest.mark.parametrize(
    "page", sorted((CHECKOUT / "docs" / "decisions").glob("0*.md")), ids=lambda page: page.stem
)
def test_decisions_follow_the_template(page: Path) -> None:
    parts = re.findall(r"(?m)^## (\w+)$", page.read_text("utf-8"))
    template = ["Context", "Decision", "Consequences", "Alternatives"]
    assert [part for part in parts if part in template] == template


PARTS = ("toolkit", "service", "page")


def arrows(diagram: str) -> Iterator[tuple[str, str]]:
    """Yield the unlabelled arrows of a mermaid flowchart between two packages."""
    for line in diagram.splitlines():
        if "-->" in line and '-- "' not in line:
            ends = [re.findall(r"\w+", re.sub(r"\[.*?\]", "", end)) for end in line.split("-->")]
            for sources, targets in itertools.pairwise(ends):
                yield from itertools.product(sources, targets)


def source_code(name: str) -> str:
    """Return the code of a package or module, at the root or in one of the parts."""
    package = CHECKOUT / "webdata_nb"
    roots = [package, *(package / part for part in PARTS)]
    files = [file for root in roots for file in [*(root / name).rglob("*.py"), root / f"{name}.py"]]
    return "\n".join(file.read_text("utf-8") for file in files if file.exists())


def test_arrows_of_the_architecture_are_imports() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text("utf-8")
    diagram = text.partition("```mermaid\n")[2].partition("```")[0]
    pairs = [pair for pair in arrows(diagram) if not {*PARTS} & set(pair)]
    assert len(pairs) > 20
    statement = r"from webdata_nb(\.toolkit|\.service|\.page)?(\.| import .*){}\b"
    missing = [
        (source, target)
        for source, target in pairs
        if not re.search(statement.format(target), source_code(source))
    ]
    assert missing == []


def test_architecture_names_every_package() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text("utf-8")
    package = CHECKOUT / "webdata_nb"
    modules = [path for part in (".", *PARTS) for path in (package / part).glob("[a-z]*")]
    names = {path.stem for path in modules if path.is_dir() or path.suffix == ".py"}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []


def test_glossary_names_modules() -> None:
    terms = re.findall(r"(?m)^\| (?!term|-).*$", (CHECKOUT / "docs/glossary.md").read_text("utf-8"))
    assert len(terms) >= 50
    assert all(MODULE.search(term) or "`bridge.py`" in term for term in terms)


def test_guide_contains_commands() -> None:
    assert len(commands()) >= 20


def crawl_of_the_receipt_page(service: WireService) -> Any:
    """Return the frame of the session, from a stub service with its rows."""
    rows = [
        {
            "url": f"https://example.com/docs/{n}",
            "title": f"Chapter {n}",
            "status_code": 200,
            "success": True,
        }
        for n in range(86)
    ]
    missing = {
        "url": "https://example.com/docs/old",
        "status_code": 404,
        "success": False,
        "error": "HTTP 404 Not Found",
    }
    service.crawl.rows = [*rows, missing]
    service.crawl.reply_fields = {"receipt": {"counts": COUNTS, "examples": {}}}
    with connect(base_url=service.url, api_key=KEY) as session:
        return session.crawl_df("https://example.com/docs/", cache=False)


def test_session_of_the_receipt_page_prints_the_documented_output() -> None:
    with WireService() as service:
        docs = crawl_of_the_receipt_page(service)
    # Durations differ from run to run.
    docs.attrs["webdata"]["line"] = re.sub(r"[\d.]+ s$", "4.1 s", docs.attrs["webdata"]["line"])
    page = CHECKOUT / "docs" / "guide" / "receipt.md"
    blocks = BLOCK.findall(page.read_text("utf-8"))
    sessions = [block for block in blocks if block.startswith(">>> ")]
    assert sessions
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for number, text in enumerate(sessions):
        session = parser.get_doctest(text, {"docs": docs}, f"session {number}", None, None)
        report: list[str] = []
        assert runner.run(session, out=report.append).failed == 0, "".join(report)


def test_receipt_page_describes_every_outcome() -> None:
    page = (CHECKOUT / "docs" / "guide" / "receipt.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `([\w:<>]+)` \| (?:yes|no) \| \S", page, re.MULTILINE))
    assert documented >= {*outcomes.MEANINGS, "failed:<kind>"}


def test_receipt_page_quotes_the_meaning_of_a_redirect() -> None:
    page = (CHECKOUT / "docs" / "guide" / "receipt.md").read_text("utf-8")
    assert f": {outcomes.meaning('redirect')}\n" in page
