"""Defines the protocol between the toolkit and its local service: files, leases and settings.

Not part of the public contract: only `webdata_nb.toolkit.local` and the local service use it, over
loopback, with the service's token. Paths are in `contract.paths` (`LOCAL_*`).
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from webdata_nb.contract import limits
from webdata_nb.contract.choices import Engine
from webdata_nb.contract.fields import Flag, HttpUrl, ProxyUrl, Strict, UserAgent

SERVICE: Final = "webdata_nb"
# The protocol version; increased by incompatible changes.
WIRE: Final = 1
# The boot id of a Linux kernel; on other systems the boot is unknown ("").
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
# Seconds a lease lasts, for tests that cannot wait for the default; it alone is inherited.
LEASE_SECONDS: Final = "WEBDATA_LEASE_SECONDS"
LEASE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:100] or "unknown"


def runtime_name(host: str, boot: str) -> str:
    """Return the runtime file's path below the data directory, for this host and boot."""
    return f"runtime/{_slug(host)}-{_slug(boot.strip())}.json"


def service_lock_name(host: str) -> str:
    """Return the name of the lock that a service holds for life."""
    return f"service-{_slug(host)}.lock"


def start_lock_name(host: str) -> str:
    """Return the name of the lock that a client holds while it starts a service."""
    return f"start-{_slug(host)}.lock"


class _ServiceIdentity(BaseModel):
    """Identity of a service; unknown fields of newer versions are kept."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="allow", frozen=True, populate_by_name=True
    )

    version: str
    wire: int
    schema_: Annotated[int, Field(alias="schema")]
    pid: int
    started_at: datetime


class Runtime(_ServiceIdentity):
    """The runtime file: the URL and the token of the service."""

    url: Annotated[str, Field(pattern=r"^http://(127\.0\.0\.1|\[::1\]):\d{1,5}$")]
    token: Annotated[str, Field(min_length=32, repr=False)]


class Hello(_ServiceIdentity):
    """Reply of `LOCAL_HELLO`. `pids` are the service's process and all its descendants."""

    service: str
    managed: bool
    pids: tuple[int, ...] = ()
    active_jobs: int
    leases: int


class LeaseReply(BaseModel):
    """Reply of `LOCAL_LEASE`. A lease that was `created` has no settings yet."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    expires_in: Annotated[float, Field(gt=0)]
    created: bool


Setting = Annotated[str, Field(max_length=limits.SETTING_LENGTH)]
ProviderName = Annotated[str, Field(max_length=limits.PROVIDER_LENGTH)]


class Access(Strict):
    """URL and key of a provider."""

    url: Setting | None = None
    key: Annotated[Setting | None, Field(repr=False)] = None


SourceName = Literal["sample", "google_ads_transparency", "meta_ad_library"]
SOURCES: Final[tuple[SourceName, ...]] = get_args(SourceName)


class Creatives(Strict):
    """The source of creatives, its accepted terms of use, its URL and key."""

    source: SourceName | None = None
    terms: Setting | None = None
    url: Setting | None = None
    key: Annotated[Setting | None, Field(repr=False)] = None


NO_CREATIVES: Final = Creatives()


ModelName = Annotated[str, Field(min_length=1, max_length=limits.MODEL_LENGTH)]


class ModelAccess(Access):
    """Access to a language model provider; `context` is in tokens, `timeout` in seconds.

    Requests that name no model use `model`, or the first of `models`. If there are `models`,
    requests may only name these and `model`.
    """

    model: ModelName | None = None
    models: Annotated[tuple[ModelName, ...], Field(strict=False, max_length=100)] = ()
    context: Annotated[int | None, Field(ge=1000, le=10_000_000)] = None
    timeout: Annotated[float | None, Field(gt=0, le=3600)] = None

    @property
    def usual(self) -> str | None:
        """The model of requests that name none."""
        return self.model or next(iter(self.models), None)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The models that a request may name; empty if any is allowed."""
        names = (self.model, *self.models) if self.models else ()
        return tuple(dict.fromkeys(name for name in names if name))


# Not strict, because JSON has no tuples.
Names = Annotated[
    tuple[ProviderName, ...], Field(strict=False, max_length=limits.SESSION_PROVIDERS)
]


class SessionSettings(Strict):
    """Provider and egress settings of one session, which its jobs inherit."""

    engines: dict[Engine, Names] = Field(default_factory=dict)
    providers: dict[ProviderName, Access] = Field(
        default_factory=dict, max_length=limits.SESSION_PROVIDERS
    )
    llm: dict[ProviderName, ModelAccess] = Field(
        default_factory=dict, max_length=limits.SESSION_PROVIDERS
    )
    creatives: Creatives = NO_CREATIVES
    proxy: Annotated[ProxyUrl | None, Field(repr=False)] = None
    ca_bundle: Setting | None = None
    user_agent: UserAgent | None = None


class StopRequest(Strict):
    """Body of `LOCAL_STOP`: without `force`, a service with jobs or leases does not stop."""

    force: Flag = False


class StopReply(BaseModel):
    """Reply of `LOCAL_STOP`; active jobs continue when a service starts again."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    active_jobs: int


class SiteRequest(Strict):
    """Body of `LOCAL_SITES_REMOVE`: any URL of the site."""

    url: HttpUrl
