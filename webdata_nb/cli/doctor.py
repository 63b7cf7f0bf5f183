"""The command `webdata doctor`: reports which parts of the toolkit work, and what is missing."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from webdata_nb import __version__
from webdata_nb.cli.commands import Commands, add_command
from webdata_nb.errors import InvalidArgument, NotFound, NotSupported, WebdataError

if TYPE_CHECKING:
    from webdata_nb.contract.replies import EngineEntry
    from webdata_nb.settings import Settings
    from webdata_nb.toolkit.session import Connection

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

FindingState = Literal["ok", "missing", "failed"]
_STATE_LABELS: Final = {"ok": "ok  ", "missing": "-   ", "failed": "FAIL"}
# The module of each extra, and what the extra is for.
_EXTRAS: Final = {
    "postgres": ("psycopg", "jobs in PostgreSQL"),
    "blobs": ("fsspec", "stored pages and files at any URL"),
    "dask": ("distributed", "jobs on a cluster"),
    "polars": ("polars", "frames of polars"),
    "plot": ("matplotlib", "figures"),
}
_SERVICE_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one part: `missing` limits what works, `failed` breaks every call."""

    name: str
    state: FindingState
    text: str


def add_commands(commands: Commands) -> None:
    """Add the command `doctor`."""
    text = "Report what is installed and usable here, and what is missing."
    parser = add_command(commands, "doctor", run, text)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the findings; return 1 if a part that every call needs has failed."""
    findings = list(check_all())
    if args.json:
        entries = [asdict(finding) for finding in findings]
        print(json.dumps({"version": __version__, "findings": entries}))
    else:
        from webdata_nb.toolkit.terminal_text import printable_line

        name_width = max(len(finding.name) for finding in findings)
        for finding in findings:
            label = _STATE_LABELS[finding.state]
            print(f"{label} {finding.name:{name_width}}  {printable_line(finding.text)}")
    return int(any(finding.state == "failed" for finding in findings))


def check_all() -> Iterator[Finding]:
    """Check all parts; a failure does not hide the findings that follow it."""
    yield Finding("version", "ok", f"webdata_nb {__version__}, Python {platform.python_version()}")
    from webdata_nb.toolkit.session import default_connection

    try:
        connection = default_connection()
        settings = connection.settings()
    except InvalidArgument as error:
        yield Finding("settings", "failed", str(error))
        return
    yield _check_folder("cache", settings.cache_dir)
    yield from _check_service(connection, settings)
    if settings.base_url is None:
        yield _check_folder("data", settings.data_dir)
        yield _check_store(settings)
        from webdata_nb.service.browser.chromium import INSTALL, find_program

        if not _is_installed("playwright"):
            yield Finding("browser", "missing", INSTALL)
        elif (chromium := find_program()) is None:
            yield Finding("browser", "missing", f"no Chromium in the path; {INSTALL}")
        else:
            yield Finding("browser", "ok", str(chromium))

        if (tesseract := shutil.which("tesseract")) is not None:
            yield Finding("ocr", "ok", tesseract)
        elif _is_installed("rapidocr") and _is_installed("onnxruntime"):
            yield Finding("ocr", "ok", "rapidocr")
        else:
            text = "install tesseract-ocr, or pip install 'webdata_nb[ocr]'"
            yield Finding("ocr", "missing", text)

        usable, text = False, "none set up: extraction fills schemas from what pages declare"
        if settings.llm:
            from webdata_nb.service.models.chat import provider_status
            from webdata_nb.toolkit.local import session_settings_of

            usable, text = provider_status(session_settings_of(settings).llm)
        yield Finding("models", "ok" if usable else "missing", text)
    for extra, (module, purpose) in _EXTRAS.items():
        if _is_installed(module):
            yield Finding(extra, "ok", purpose)
        else:
            yield Finding(extra, "missing", f"{purpose}: pip install 'webdata_nb[{extra}]'")


def _check_folder(name: Literal["cache", "data"], path: Path) -> Finding:
    """Check that a folder can be written, and that the data folder is not on a network drive."""
    from webdata_nb.toolkit.local import network_file_system, write_problem

    problem = write_problem(path)
    if problem is not None:
        effect = "a temporary folder stands in" if name == "data" else "results are not kept"
        return Finding(name, "missing", f"{path} cannot be written ({problem}): {effect}")
    mounts = Path("/proc/self/mounts")
    if name == "data" and mounts.exists():
        file_system = network_file_system(path, mounts.read_text("utf-8", "replace"))
        if file_system is not None:
            text = f"{path} is on {file_system}: a local folder stands in for it"
            return Finding(name, "missing", text)
    return Finding(name, "ok", str(path))


def _check_store(settings: Settings) -> Finding:
    from webdata_nb.service.store.backends import DATABASE_FILE
    from webdata_nb.toolkit.local import resolve_data_directory

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the finding of the folder reports the same
            database = resolve_data_directory(settings).data_dir / DATABASE_FILE
    except WebdataError as error:
        return Finding("store", "failed", str(error))
    if not database.exists():
        return Finding("store", "ok", f"SQLite, nothing in it yet: {database}")
    return Finding("store", "ok", f"SQLite, {database.stat().st_size // 1024} KB: {database}")


def _check_service(connection: Connection, settings: Settings) -> Iterator[Finding]:
    """Connect to the service as every call does, and list its engines."""
    from webdata_nb.toolkit.bridge import synced

    if settings.offline:
        yield Finding("service", "missing", "offline mode is on: no request is sent")
        return
    try:
        with warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("always")
            description, engines = synced(_fetch_engines)(connection, settings)
    except (WebdataError, OSError, TimeoutError) as error:
        address = settings.base_url or "the local service"
        yield Finding("service", "failed", f"{address}: {str(error) or 'no reply in time'}")
        return
    yield Finding("service", "ok", description)
    for warning in caught_warnings:
        yield Finding("service", "missing", str(warning.message))
    if engines is None:
        yield Finding("engines", "missing", "this service does not list its engines")
        return
    for engine in dict.fromkeys(entry.engine for entry in engines):
        usable = [entry.provider for entry in engines if entry.engine == engine and entry.usable]
        if usable:
            yield Finding(engine, "ok", ", ".join(usable))
        else:
            yield Finding(engine, "failed", "no provider is usable")
    problems = {entry.provider: entry.why for entry in engines if entry.why}
    for provider, problem in problems.items():
        yield Finding(f"  {provider}", "missing", str(problem))


async def _fetch_engines(
    connection: Connection, settings: Settings
) -> tuple[str, list[EngineEntry] | None]:
    """Return a description of the service, and its engines if it lists them."""
    import asyncio

    async with asyncio.timeout(_SERVICE_TIMEOUT_S), connection.client(settings) as client:
        try:
            engines: list[EngineEntry] | None = await client.engines()
        except (NotFound, NotSupported):
            await client.weights()  # every service has weights, so this checks the key
            engines = None
        kind = "local" if settings.base_url is None else "accepts the key"
        return f"{client.base_url}, {kind}", engines


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
