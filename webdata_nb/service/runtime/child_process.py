"""What a child process of the service is started with: its interpreter and a minimal environment.

The service's own environment holds provider keys, the key that seals secrets, and database
passwords. Children handle pages and pictures from anywhere, and are given none of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# What an interpreter needs to start, and what decides how it reads text and time.
INHERITED: Final = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "WINDIR"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONUTF8"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
    }
)


def environment(also: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the variables that a child may know: those of `INHERITED` and `also`."""
    return minimal(os.environ, INHERITED | also)


def minimal(given: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """Return the variables of these names, and those of the locale (``LC_*``)."""
    return {
        name: value
        for name, value in given.items()
        if name.upper() in names or name.startswith("LC_")
    }


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of ours; for `python_environment`."""
    return (sys.executable, "-P", "-m", module, *arguments)


def python_environment(**values: str) -> dict[str, str]:
    """Return the environment for `python`: it imports from where this process does."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**environment(), "PYTHONPATH": path, **values}
