"""What a service is told when it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from webdata_nb import __version__
from webdata_nb.contract import fields, limits, variables
from webdata_nb.contract.local import SOURCES, SessionSettings
from webdata_nb.service.encryption import KEY_FILE, FixedKeys, KeyFile, SecretCipher, check_keys
from webdata_nb.service.http.client_limits import LOOPBACK, PER_ACCOUNT, PER_ADDRESS, ClientLimits

Mode = Literal["local", "team"]
SECRET_KEY: Final = "WEBDATA_SECRET_KEY"  # noqa: S105 - the name of a setting
LOCAL_ACCOUNT: Final = "local"
# Seconds without progress after which the watchdog ends an attempt at a job.
STALL_S: Final = 600.0
LAST_PORT: Final = 65_535
_LOOPBACK: Final = frozenset({None, "127.0.0.1", "localhost", "::1"})
USER_AGENT: Final = f"webdata_nb/{__version__}"


class InvalidSetting(ValueError):
    """A start option that is not allowed; the message says what is."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Hours, counted from a job's end; `inf` keeps for ever.

    Attributes
    ----------
    search_hours, crawl_hours
        For which the rows of a search and of a crawl can be read.
    job_hours
        After which nothing of a job is left; its rows do not outlive it.
    """

    search_hours: float = limits.RETENTION_HOURS
    crawl_hours: float = 30 * 24
    job_hours: float = 90 * 24

    @classmethod
    def checked(
        cls, mode: Mode, *, search: float | None, crawl: float | None, job: float | None
    ) -> Retention:
        """Fill what was not given by what suits the mode; raises `InvalidSetting`."""
        for option, hours in (
            ("--retention-hours", search),
            ("--crawl-retention-hours", crawl),
            ("--job-retention-hours", job),
        ):
            if hours is not None and not hours > 0:
                raise InvalidSetting(f"{option} takes a number of hours above 0, or inf")
        # One person's crawls are also what their local search looks through.
        usual = cls() if mode == "local" else cls(crawl_hours=7 * 24)
        given = {"search_hours": search, "crawl_hours": crawl, "job_hours": job}
        return replace(usual, **{name: hours for name, hours in given.items() if hours is not None})


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """What jobs tell their callers' endpoints, and where those may be.

    Attributes
    ----------
    profile
        Which of the contract's two descriptions is followed.
    pages
        Whether each page of a crawl is told; profile B alone has the event.
    loopback
        Whether an endpoint may be on this machine, by http too.
    """

    profile: Literal["A", "B"] = "A"
    pages: bool = False
    loopback: bool = False

    @classmethod
    def checked(
        cls, mode: Mode, *, profile: str, pages: bool, loopback: bool | None
    ) -> WebhookSettings:
        """Return settings that agree; raises `InvalidSetting`."""
        if profile not in {"A", "B"}:
            raise InvalidSetting("--webhook-profile takes A or B")
        if pages and profile != "B":
            raise InvalidSetting("--webhook-pages needs --webhook-profile B, which has the event")
        # A notebook and its local service are on one machine.
        near = mode == "local" if loopback is None else loopback
        return cls("B" if profile == "B" else "A", pages, near)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The way through a network's own proxy; a job's session goes before it, part by part.

    Attributes
    ----------
    proxy
        The URL of an http or https proxy; it may hold a password, so no repr shows it.
    ca_bundle
        A PEM file of certificate authorities to trust beside the system's.
    """

    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None

    @classmethod
    def checked(cls, *, proxy: str | None, ca_bundle: str | None) -> Upstream:
        """Validate the settings; no `InvalidSetting` shows the URL, which may hold a password."""
        try:
            checked = None if proxy is None else fields.proxy_url(proxy)
        except ValueError as error:
            raise InvalidSetting(f"--proxy (WEBDATA_PROXY) {error}") from None
        if ca_bundle is None:
            return cls(checked)
        if not _has_certificates(Path(ca_bundle)):
            raise InvalidSetting(
                "--ca-bundle (WEBDATA_CA_BUNDLE) takes a file of certificates in PEM form, which "
                f"{ca_bundle} is not"
            )
        return cls(checked, str(Path(ca_bundle).absolute()))

    def of(self, context: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return proxy and CA bundle for a job with this context."""
        return context.get("proxy") or self.proxy, context.get("ca_bundle") or self.ca_bundle


DIRECT: Final = Upstream()


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Start options, checked."""

    data_dir: Path
    mode: Mode = "local"
    host: str = "127.0.0.1"
    port: int = 0
    allow_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    user_agent: str = USER_AGENT
    providers: SessionSettings = field(default_factory=SessionSettings)
    secret_keys: tuple[str, ...] = field(default=(), repr=False)
    retention: Retention = Retention()
    webhooks: WebhookSettings = WebhookSettings()
    metrics: tuple[str, int] | None = None
    clients: ClientLimits = field(default_factory=ClientLimits)
    upstream: Upstream = DIRECT
    stall_s: float = STALL_S

    @classmethod
    def checked(
        cls,
        *,
        host: str | None,
        port: int,
        data_dir: Path,
        store: str | None,
        mode: Mode,
        allow_networks: tuple[str, ...],
        user_agent: str | None = None,
        retention_hours: float | None = None,
        crawl_retention_hours: float | None = None,
        job_retention_hours: float | None = None,
        webhook_profile: str = "A",
        webhook_pages: bool = False,
        webhook_loopback: bool | None = None,
        metrics: str | None = None,
        trusted_proxies: tuple[str, ...] = (),
        connections_per_address: int | None = None,
        requests_per_account: int | None = None,
        proxy: str | None = None,
        ca_bundle: str | None = None,
    ) -> ServiceSettings:
        """Return settings from a command's options and variables; raises `InvalidSetting`."""
        if store not in {None, "sqlite"}:
            raise InvalidSetting("--store takes sqlite (the default: jobs in the data directory)")
        if not 0 <= port <= LAST_PORT:
            raise InvalidSetting(f"--port takes a number from 0 to {LAST_PORT}")
        if mode == "local" and host not in _LOOPBACK:
            raise InvalidSetting(
                f"local mode listens on loopback only, not on {host}; use --mode team to serve "
                "others, with keys"
            )
        listen = "127.0.0.1" if host in {None, "localhost"} else host
        return cls(
            data_dir,
            mode,
            listen,
            port,
            _networks(allow_networks),
            _user_agent(user_agent),
            providers(os.environ),
            secret_keys(),
            Retention.checked(
                mode,
                search=retention_hours,
                crawl=crawl_retention_hours,
                job=job_retention_hours,
            ),
            WebhookSettings.checked(
                mode, profile=webhook_profile, pages=webhook_pages, loopback=webhook_loopback
            ),
            _address(metrics),
            _clients(trusted_proxies, connections_per_address, requests_per_account),
            Upstream.checked(proxy=proxy, ca_bundle=ca_bundle),
        )

    @property
    def cipher(self) -> SecretCipher:
        """The cipher of jobs' secrets, with the given keys or the data directory's key file."""
        return secret_cipher_for(self.data_dir, self.secret_keys)


def secret_keys() -> tuple[str, ...]:
    """Return the keys of the environment; raises `InvalidSetting`."""
    try:
        return check_keys(os.environ.get(SECRET_KEY, ""))
    except ValueError as error:
        raise InvalidSetting(str(error)) from None


def secret_cipher_for(data_dir: Path, keys: tuple[str, ...]) -> SecretCipher:
    """Return a cipher with `keys`, or with the data directory's key file if there are none."""
    return SecretCipher(FixedKeys(keys) if keys else KeyFile(data_dir / KEY_FILE))


def _user_agent(text: str | None) -> str:
    try:
        return USER_AGENT if text is None else fields.user_agent(text)
    except ValueError as error:
        raise InvalidSetting(f"--user-agent {error}") from None


def providers(environ: Mapping[str, str]) -> SessionSettings:
    """Return the operator's providers: WEBDATA_ENGINE_ONE, WEBDATA_BRAVE_KEY and the like."""
    given = {name: text.strip() for name, text in environ.items() if text.strip()}
    groups: dict[bool, dict[str, dict[str, object]]] = {False: {}, True: {}}
    try:
        for name, text in given.items():
            if (found := variables.provider_variable(name)) is not None:
                value = variables.provider_value(name, found, text)
                groups[found.llm].setdefault(found.provider, {})[found.part] = value
    except ValueError as error:
        raise InvalidSetting(str(error)) from None
    told = {
        "engines": variables.engine_providers(given),
        "providers": groups[False],
        "llm": groups[True],
        "creatives": _creatives(given, groups[False]),
    }
    try:
        return SessionSettings.model_validate(told)
    except ValidationError as error:
        wrong = ("_".join(map(str, each["loc"])) for each in error.errors(include_input=False))
        raise InvalidSetting(f"not allowed in the environment: {', '.join(wrong)}") from None


def _creatives(
    given: Mapping[str, str], access: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """Return the operator's source of creatives, with its address and key."""
    source = given.get("WEBDATA_CREATIVES_SOURCE")
    if source is not None and source not in SOURCES:
        raise InvalidSetting(f"WEBDATA_CREATIVES_SOURCE must be one of {', '.join(SOURCES)}")
    way = access.get(source or "", {})
    terms = given.get("WEBDATA_CREATIVES_TERMS")
    return {"source": source, "terms": terms, "url": way.get("url"), "key": way.get("key")}


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) <= LAST_PORT:
        raise InvalidSetting("--metrics takes HOST:PORT, such as 127.0.0.1:9100")
    return host.strip("[]"), int(port)


def _clients(
    proxies: tuple[str, ...], per_address: int | None, per_account: int | None
) -> ClientLimits:
    for option, most in (
        ("--connections-per-address", per_address),
        ("--requests-per-account", per_account),
    ):
        if most is not None and most < 1:
            raise InvalidSetting(f"{option} takes a whole number from 1, not {most}")
    return ClientLimits(
        PER_ADDRESS if per_address is None else per_address,
        PER_ACCOUNT if per_account is None else per_account,
        _proxies(proxies),
    )


def _proxies(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    if not texts:
        return LOOPBACK
    if texts == ("none",):
        return ()
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise InvalidSetting(
            "--trusted-proxy takes an address or a network such as 10.1.0.5 or 10.1.0.0/24, or "
            f"none alone: {error}"
        ) from None


def _has_certificates(file: Path) -> bool:
    try:
        return b"-----BEGIN CERTIFICATE-----" in file.read_bytes()
    except OSError:
        return False


def _networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise InvalidSetting(
            f"--allow-network takes a network such as 10.1.0.0/16: {error}"
        ) from None
