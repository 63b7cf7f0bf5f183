"""The command `webdata doctor`: what is installed and usable here, and what the rest lacks."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import platform
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from webdata_nb import __version__
from webdata_nb.errors import InvalidArgument, NotFound, NotSupported, WebdataError

if TYPE_CHECKING:
    from webdata_nb.contract.replies import EngineEntry
    from webdata_nb.session import Connection
    from webdata_nb.settings import Settings

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

State = Literal["ok", "missing", "failed"]
_MARKS: Final = {"ok": "ok  ", "missing": "-   ", "failed": "FAIL"}
_EXTRAS: Final = {
    "search": ("ddgs", "public search pages as providers"),
    "postgres": ("psycopg", "jobs in PostgreSQL"),
    "dask": ("distributed", "jobs on a cluster"),
    "polars": ("polars", "frames of polars"),
    "plot": ("matplotlib", "figures"),
}
_SERVICE_S: Final = 60.0
_DATABASE: Final = "jobs.sqlite"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: `missing` is what works without, `failed` what does not."""

    name: str
    state: State
    text: str


def add(commands: Any) -> None:
    """Add the command `doctor`."""
    text = "Say what is installed and usable here, and what the rest lacks."
    parser: argparse.ArgumentParser = commands.add_parser("doctor", help=text, description=text)
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 where something that every call needs has failed."""
    found = list(findings())
    if args.json:
        print(json.dumps({"version": __version__, "findings": [asdict(each) for each in found]}))
    else:
        width = max(len(each.name) for each in found)
        for each in found:
            text = "".join(mark if mark.isprintable() else " " for mark in each.text)
            print(f"{_MARKS[each.state]} {each.name:{width}}  {text}")
    sys.stdout.flush()
    return int(any(each.state == "failed" for each in found))


def findings() -> Iterator[Finding]:
    """Look at everything, one thing after the other; what has failed hides nothing else."""
    yield Finding("version", "ok", f"webdata_nb {__version__}, Python {platform.python_version()}")
    from webdata_nb.session import default_connection

    try:
        connection = default_connection()
        chosen = connection.settings()
    except InvalidArgument as error:
        yield Finding("settings", "failed", str(error))
        return
    yield _folder("cache", chosen.cache_dir)
    yield from _service(connection, chosen)
    if chosen.base_url is None:
        yield from _data(chosen)
        yield _browser()
        yield _ocr()
        yield _models(chosen)
    yield from _extras()


def _folder(name: str, path: Path) -> Finding:
    """Say whether a folder can be written; where not, another one stands in or none."""
    from webdata_nb.local.data_dir import network_type, unwritable

    problem = unwritable(path)
    if problem is not None:
        without = "a temporary folder stands in" if name == "data" else "results are not kept"
        return Finding(name, "missing", f"{path} cannot be written ({problem}): {without}")
    mounts = Path("/proc/self/mounts")
    kind = network_type(path, mounts.read_text("utf-8", "replace")) if mounts.exists() else None
    if kind is not None and name == "data":
        return Finding(name, "missing", f"{path} is on {kind}: a local folder stands in for it")
    return Finding(name, "ok", str(path))


def _data(chosen: Settings) -> Iterator[Finding]:
    """Look at the local service's folder, and at the jobs in it."""
    from webdata_nb.local import place

    yield _folder("data", chosen.data_dir)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the finding above has said it
            database = place(chosen).data_dir / _DATABASE
    except WebdataError as error:
        yield Finding("store", "failed", str(error))
        return
    if database.exists():
        yield Finding("store", "ok", f"SQLite, {database.stat().st_size // 1024} KB: {database}")
    else:
        yield Finding("store", "ok", f"SQLite, nothing in it yet: {database}")


def _service(connection: Connection, chosen: Settings) -> Iterator[Finding]:
    """Reach the service as any call does, and ask it whom it can ask."""
    from webdata_nb.bridge import synced

    where = chosen.base_url or "the local service"
    if chosen.offline:
        yield Finding("service", "missing", "offline mode is on: nothing is asked")
        return
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            about, entries = synced(_asked)(connection, chosen)
    except (WebdataError, OSError, TimeoutError) as error:
        yield Finding("service", "failed", f"{where}: {str(error) or 'no answer in time'}")
        return
    yield Finding("service", "ok", about)
    yield from (Finding("service", "missing", str(each.message)) for each in told)
    yield from _engines(entries)


async def _asked(connection: Connection, chosen: Settings) -> tuple[str, list[EngineEntry] | None]:
    """Return what the service is, and its engines where it lists them."""
    async with asyncio.timeout(_SERVICE_S), connection.client(chosen) as client:
        try:
            entries: list[EngineEntry] | None = await client.engines()
        except (NotFound, NotSupported):
            await client.weights()  # it may be another service: this, each one has
            entries = None
        place = "local" if chosen.base_url is None else "accepts the key"
        return f"{client.base_url}, {place}", entries


def _engines(entries: list[EngineEntry] | None) -> Iterator[Finding]:
    if entries is None:
        yield Finding("engines", "missing", "this service does not list its engines")
        return
    for engine in dict.fromkeys(entry.engine for entry in entries):
        own = [entry for entry in entries if entry.engine == engine]
        usable = [entry.provider for entry in own if entry.usable]
        text = ", ".join(usable) or "no provider can be asked"
        yield Finding(engine, "ok" if usable else "failed", text)
    whys = {entry.provider: entry.why for entry in entries if entry.why}
    for provider, why in whys.items():
        yield Finding(f"  {provider}", "missing", str(why))


def _browser() -> Finding:
    from webdata_nb.service.browser.chromium import INSTALL, find_program

    if not _installed("playwright"):
        return Finding("browser", "missing", INSTALL)
    program = find_program()
    if program is not None:
        return Finding("browser", "ok", str(program))
    return Finding("browser", "missing", f"no Chromium in the path; {INSTALL}")


def _ocr() -> Finding:
    program = shutil.which("tesseract")
    if program is not None:
        return Finding("ocr", "ok", program)
    if _installed("rapidocr") and _installed("onnxruntime"):
        return Finding("ocr", "ok", "rapidocr")
    return Finding("ocr", "missing", "install tesseract-ocr, or pip install 'webdata_nb[ocr]'")


def _models(chosen: Settings) -> Finding:
    from webdata_nb.local.heartbeat import handed_over
    from webdata_nb.service.extract.model_providers import standing

    if chosen.llm:
        usable, told = standing(handed_over(chosen).llm)
        return Finding("models", "ok" if usable else "missing", told)
    why = "none set up: extraction fills schemas from what pages declare"
    return Finding("models", "missing", why)


def _extras() -> Iterable[Finding]:
    for name, (module, use) in _EXTRAS.items():
        if _installed(module):
            yield Finding(name, "ok", use)
        else:
            yield Finding(name, "missing", f"{use}: pip install 'webdata_nb[{name}]'")


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
