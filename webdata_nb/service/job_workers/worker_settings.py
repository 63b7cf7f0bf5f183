"""Settings that a service sends to its workers, and those that they read from their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from webdata_nb.service.settings import (
    OPTIONS,
    STORE,
    InvalidSetting,
    ServiceSettings,
    team_store_url,
)


def worker_options(settings: ServiceSettings) -> dict[str, Any]:
    """Return the options that a service sends to its workers, as JSON.

    Anyone who reaches the scheduler can read them. `needs` has the names of the options that a
    worker must have in its environment, because the service has them.
    """
    sent = [name for name, option in OPTIONS.items() if option.dask == "sent"]
    needs = [
        name
        for name, option in OPTIONS.items()
        if option.dask_need is not None and getattr(settings, name) is not None
    ]
    return {"sent": {name: getattr(settings, name) for name in sent}, "needs": needs}


def worker_settings(
    options: Mapping[str, Any], data_dir: Path, name: str, *, page_workers: int
) -> ServiceSettings:
    """Return the settings of a worker: database, keys and proxy are those of its environment.

    Raises
    ------
    InvalidSetting
        The environment has an invalid value, or none that is needed.
    """
    for need in options["needs"]:
        option = OPTIONS[need]
        if option.dask_need is not None and not os.environ.get(option.variable or ""):
            reason, content = option.dask_need
            raise InvalidSetting(
                f"the service {reason}: set {option.variable} in the worker's environment{content}"
            )
    require_shared_store(team_store_url(None))
    given = {**options["sent"], "mode": "team", "data_dir": data_dir, "replica": name}
    return replace(ServiceSettings.checked(given), page_workers=page_workers)


def require_shared_store(store_url: str | None) -> None:
    """Raise `InvalidSetting` without a store that several processes can use."""
    if store_url is None:
        raise InvalidSetting(
            f"a worker needs the PostgreSQL database of its service, in {STORE} or --store: SQLite "
            "is for one process"
        )


def export_to_children(settings: ServiceSettings) -> None:
    """Put what worker processes on this machine need into the environment that they inherit."""
    for name, option in OPTIONS.items():
        value = getattr(settings, name)
        if option.dask == "environment" and option.variable is not None and value is not None:
            os.environ[option.variable] = str(value)
