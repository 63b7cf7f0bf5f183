"""What a test needs from the machine: without it the test skips, or fails under `CI=true`."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_CHECKOUT: Final = Path(__file__).resolve().parent.parent
_SYSTEM_PATHS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin")
_DOCS: Final = Path("/usr/share/doc")


def _program(*names: str) -> Path | None:
    """Find a program in PATH, or where Debian keeps it for root alone."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_SYSTEM_PATHS))
    found = (shutil.which(name, path=path) for name in names)
    return next((Path(program) for program in found if program), None)


def _python_docs() -> Path | None:
    """Find the folder of Debian's python3-doc, whichever of its packages gives it."""
    candidates = (_DOCS / "python3-doc" / "html", *sorted(_DOCS.glob("python3.*/html")))
    return next((root.resolve() for root in candidates if (root / "index.html").is_file()), None)


def _django_docs() -> Path | None:
    root = _DOCS / "python-django-doc" / "html"
    return root.resolve() if (root / "index.html").is_file() else None


def _apache_docs() -> Path | None:
    root = _DOCS / "apache2-doc" / "manual" / "en"
    return root.resolve() if (root / "index.html").is_file() else None


def _postgresql_docs() -> Path | None:
    """Find the HTML of one of Debian's postgresql-doc packages."""
    roots = sorted(_DOCS.glob("postgresql-doc-*/html"))
    return next((root.resolve() for root in roots if (root / "index.html").is_file()), None)


def _sqlite_docs() -> Path | None:
    root = _DOCS / "sqlite3"
    return root.resolve() if (root / "index.html").is_file() else None


def _corpora() -> Path | None:
    named = os.environ.get("WEBDATA_CORPORA")
    root = Path(named) if named else _CHECKOUT.parent / "shared" / "corpora"
    return root if root.is_dir() else None


def _postgresql() -> Path | None:
    """Find the folder of PostgreSQL's server programs; the newest version wins."""
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda program: int(program.parts[-3].partition(".")[0]),
    )
    program = installed[-1] if installed else _program("initdb")
    return program.parent if program else None


_FINDERS: Final[dict[str, Callable[[], Path | None]]] = {
    "apache-docs": _apache_docs,
    "chromium": lambda: _program(
        "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
    ),
    "corpora": _corpora,
    "django-docs": _django_docs,
    "ip": lambda: _program("ip"),
    "nginx": lambda: _program("nginx"),
    "pgbouncer": lambda: _program("pgbouncer"),
    "postgresql": _postgresql,
    "postgresql-docs": _postgresql_docs,
    "prometheus": lambda: _program("prometheus"),
    "promtool": lambda: _program("promtool"),
    "python-docs": _python_docs,
    "sqlite-docs": _sqlite_docs,
    "systemd-analyze": lambda: _program("systemd-analyze"),
    "tesseract": lambda: _program("tesseract"),
    "wget": lambda: _program("wget"),
}


def find(component: str) -> Path | None:
    """Return where a component is, or None when the machine does not have it."""
    return _FINDERS[component]()


def require(component: str) -> Path:
    """Return where a component is; skip the test without it, or fail it under `CI=true`.

    Components: chromium, ip (of iproute2), nginx, pgbouncer, prometheus, promtool, systemd-analyze,
    tesseract and wget (the programs), corpora, postgresql (the folder of the server's programs),
    python-docs, django-docs, postgresql-docs, apache-docs and sqlite-docs (the folders of their
    HTML).
    """
    return find(component) or missing(component)


def require_module(name: str) -> ModuleType:
    """Import a module of an optional extra; skip the test without it, or fail it in CI."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(f"module {name}")


def in_ci() -> bool:
    """Return whether the environment asks for the full run, in which nothing may skip."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def missing(what: str) -> NoReturn:
    """Skip the running test because `what` is absent, or fail it under `CI=true`."""
    if in_ci():
        pytest.fail(f"{what} is not installed, and CI must have it: see .ci/run", pytrace=False)
    pytest.skip(f"{what} is not installed")
