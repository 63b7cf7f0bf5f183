"""What an import brings along: a notebook's first cell must not wait for what it may not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

CHECKOUT: Final = Path(__file__).resolve().parent.parent
HEAVY: Final = frozenset(
    {
        "IPython",
        "aiohttp",
        "dask",
        "ddgs",
        "distributed",
        "fastapi",
        "fsspec",
        "httpx",
        "ipywidgets",
        "nest_asyncio2",
        "numpy",
        "pandas",
        "psycopg",
        "pyarrow",
        "pydantic",
        "starlette",
        "tqdm",
        "turbohtml",
        "uvicorn",
    }
)
TABLES: Final = frozenset({"numpy", "pandas", "pyarrow"})
SCREEN: Final = frozenset({"IPython", "ipywidgets", "tqdm"})


def loaded_by(code: str) -> frozenset[str]:
    """Return the top-level modules that a fresh interpreter has after `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return frozenset(name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import webdata_nb",
        "from webdata_nb import __version__",
        "import webdata_nb; dir(webdata_nb)",
        "import webdata_nb.__main__",
    ],
)
def test_an_import_alone_loads_nothing_heavy(code: str) -> None:
    assert loaded_by(code) & HEAVY == set()


def test_the_commands_help_loads_nothing_heavy() -> None:
    code = (
        "from webdata_nb.__main__ import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as ended:\n    assert not ended.code"
    )
    assert loaded_by(code) & HEAVY == set()


@pytest.mark.slow
def test_a_public_function_brings_its_table_and_no_service() -> None:
    loaded = loaded_by("from webdata_nb import crawl_df")
    assert "pandas" in loaded
    assert loaded & (SCREEN | {"aiohttp", "starlette", "turbohtml", "uvicorn"}) == set()


@pytest.mark.slow
def test_the_service_loads_no_library_of_search_pages() -> None:
    """It takes a tenth of a second, so the first search that asks such a page loads it."""
    assert loaded_by("import webdata_nb.service.app") & {"ddgs", "lxml", "primp"} == set()


@pytest.mark.slow
def test_the_service_knows_no_table_and_no_screen() -> None:
    assert loaded_by("import webdata_nb.service.app") & (TABLES | SCREEN | {"httpx"}) == set()


@pytest.mark.slow
def test_a_page_worker_loads_no_parser_of_rare_documents() -> None:
    rare = {"markdown_it", "pypdfium2", "yaml"}
    assert loaded_by("import webdata_nb.service.workers.worker") & rare == set()
