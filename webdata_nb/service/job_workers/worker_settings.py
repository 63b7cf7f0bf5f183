"""Settings that a service sends to its workers, and those that they read from their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from webdata_nb.service.settings import (
    BLOBS,
    CA_BUNDLE,
    PROXY,
    SIGNING_KEYS,
    SLOTS,
    STORE,
    USER_AGENT,
    InvalidSetting,
    ServiceSettings,
    blobs_url,
    team_store_url,
)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options that a service sends to its workers; anyone who reaches the scheduler can read them.

    Attributes
    ----------
    slots
        How many jobs a worker runs at a time.
    allow_networks
        Private networks, as CIDR texts, that jobs may fetch from.
    user_agent
        The user agent for web sites.
    needs_proxy
        Whether a worker must have a proxy in its environment, because the service has one.
    needs_blobs
        The same for the place of files: a worker reads stored pages to continue a job.
    needs_signing_keys
        The same for the file of the keys that sign requests.
    """

    slots: int = SLOTS
    allow_networks: tuple[str, ...] = ()
    user_agent: str = USER_AGENT
    needs_proxy: bool = False
    needs_blobs: bool = False
    needs_signing_keys: bool = False

    @classmethod
    def of(cls, settings: ServiceSettings) -> WorkerOptions:
        """Return the options for the workers of a service."""
        networks = tuple(map(str, settings.allow_networks))
        return cls(
            settings.slots,
            networks,
            settings.user_agent,
            needs_proxy=settings.upstream.proxy is not None,
            needs_blobs=settings.blobs_url is not None,
            needs_signing_keys=settings.signing_keys is not None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as values of JSON."""
        return asdict(self) | {"allow_networks": list(self.allow_networks)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> WorkerOptions:
        """Return the options of another process of this release."""
        return cls(**{**values, "allow_networks": tuple(values["allow_networks"])})


def worker_settings(
    options: WorkerOptions, data_dir: Path, name: str, *, page_workers: int
) -> ServiceSettings:
    """Return the settings of a worker: database, keys and proxy are those of its environment.

    Raises
    ------
    InvalidSetting
        The environment has an invalid value, or none that is needed.
    """
    proxy = os.environ.get(PROXY) or None
    if options.needs_proxy and proxy is None:
        raise InvalidSetting(f"the service uses a proxy: set {PROXY} in the worker's environment")
    if options.needs_blobs and blobs_url(None) is None:
        raise InvalidSetting(
            f"the service stores pages at --blobs: set {BLOBS} in the worker's environment"
        )
    if options.needs_signing_keys and not os.environ.get(SIGNING_KEYS):
        raise InvalidSetting(
            f"the service signs its requests: set {SIGNING_KEYS} in the worker's environment to "
            "a copy of its file of keys"
        )
    require_shared_store(team_store_url(None))
    settings = ServiceSettings.checked(
        host=None,
        port=0,
        data_dir=data_dir,
        store=None,
        mode="team",
        allow_networks=options.allow_networks,
        user_agent=options.user_agent,
        proxy=proxy,
        ca_bundle=os.environ.get(CA_BUNDLE) or None,
        slots=options.slots,
        replica=name,
    )
    return replace(settings, page_workers=page_workers)


def require_shared_store(store_url: str | None) -> None:
    """Raise `InvalidSetting` without a store that several processes can use."""
    if store_url is None:
        raise InvalidSetting(
            f"a worker needs the PostgreSQL database of its service, in {STORE} or --store: SQLite "
            "is for one process"
        )


def export_to_children(settings: ServiceSettings) -> None:
    """Put what worker processes on this machine need into the environment that they inherit."""
    values = {
        STORE: settings.store_url,
        BLOBS: settings.blobs_url,
        PROXY: settings.upstream.proxy,
        CA_BUNDLE: settings.upstream.ca_bundle,
        SIGNING_KEYS: None if settings.signing_keys is None else str(settings.signing_keys),
    }
    os.environ.update({name: value for name, value in values.items() if value is not None})
