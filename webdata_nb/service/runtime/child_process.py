"""Builds commands and minimal environments for child processes.

The service's environment contains provider keys, the key that encrypts secrets, and database
passwords. Child processes handle untrusted pages and images, so they get none of these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# What an interpreter needs to start, and what controls encodings and time zones.
INHERITED: Final = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "WINDIR"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONUTF8"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
    }
)


def child_environment(extra_names: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return this process's variables with the names of `INHERITED` and `extra_names`."""
    return filter_environment(os.environ, INHERITED | extra_names)


def filter_environment(variables: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """Return the variables with these names, and those of the locale (``LC_*``)."""
    return {
        name: value
        for name, value in variables.items()
        if name.upper() in names or name.startswith("LC_")
    }


def python_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module; it needs `python_environment`."""
    return (sys.executable, "-P", "-m", module, *arguments)


def python_environment(**values: str) -> dict[str, str]:
    """Return the environment for `python_command`, with the import path of this process."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**child_environment(), "PYTHONPATH": path, **values}
