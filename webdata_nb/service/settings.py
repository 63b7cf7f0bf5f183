"""Validates the start options and environment variables of a service."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from webdata_nb import __version__
from webdata_nb.contract import fields, limits, variables
from webdata_nb.contract.local import SOURCES, SessionSettings
from webdata_nb.service.dask_address import DaskAddress, parse_dask_address
from webdata_nb.service.encryption import KEY_FILE, FixedKeys, KeyFile, SecretCipher, check_keys
from webdata_nb.service.http.client_limits import LOOPBACK, PER_ACCOUNT, PER_ADDRESS, ClientLimits
from webdata_nb.service.signing.key_file import KEY_FILE as SIGNING_KEY_FILE
from webdata_nb.service.signing.key_file import SigningKeyFile

Mode = Literal["local", "team"]
SECRET_KEY: Final = "WEBDATA_SECRET_KEY"  # noqa: S105 - the name of a setting
STORE: Final = "WEBDATA_STORE"
REPLICA: Final = "WEBDATA_REPLICA"
BLOBS: Final = "WEBDATA_BLOBS"
PROXY: Final = "WEBDATA_PROXY"
CA_BUNDLE: Final = "WEBDATA_CA_BUNDLE"
SIGNING_KEYS: Final = "WEBDATA_SIGNING_KEYS"
LOCAL_ACCOUNT: Final = "local"
# Seconds without progress after which the watchdog ends an attempt at a job.
STALL_S: Final = 600.0
# Jobs that a process runs at a time.
SLOTS: Final = 24
MAX_SLOTS: Final = 256
_URL_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_REPLICA_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LAST_PORT: Final = 65_535
_LOOPBACK: Final = frozenset({None, "127.0.0.1", "localhost", "::1"})
USER_AGENT: Final = f"webdata_nb/{__version__}"


class InvalidSetting(ValueError):
    """An invalid start option; the message says which values are valid."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention in hours after a job's end; `inf` keeps results for ever.

    Attributes
    ----------
    search_hours, crawl_hours
        How long the rows of a search and of a crawl can be read.
    job_hours
        How long a job is kept; its rows are deleted with it at the latest.
    """

    search_hours: float = limits.RETENTION_HOURS
    crawl_hours: float = 30 * 24
    job_hours: float = 90 * 24

    @classmethod
    def checked(
        cls, mode: Mode, *, search: float | None, crawl: float | None, job: float | None
    ) -> Retention:
        """Validate, with the defaults of the mode for None; raises `InvalidSetting`."""
        for option, hours in (
            ("--retention-hours", search),
            ("--crawl-retention-hours", crawl),
            ("--job-retention-hours", job),
        ):
            if hours is not None and not hours > 0:
                raise InvalidSetting(f"{option} takes a number of hours above 0, or inf")
        # The local search reads the rows of crawls, so a local service keeps them longer.
        defaults = cls() if mode == "local" else cls(crawl_hours=7 * 24)
        hours_by_field = {"search_hours": search, "crawl_hours": crawl, "job_hours": job}
        return replace(
            defaults,
            **{name: hours for name, hours in hours_by_field.items() if hours is not None},
        )


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The webhook profile, page events, and where endpoints may be.

    Attributes
    ----------
    profile
        The webhook format of the contract.
    pages
        Whether each page of a crawl sends an event; needs profile B.
    loopback
        Whether an endpoint may be on this machine, also with http.
    """

    profile: Literal["A", "B"] = "A"
    pages: bool = False
    loopback: bool = False

    @classmethod
    def checked(
        cls, mode: Mode, *, profile: str, pages: bool, loopback: bool | None
    ) -> WebhookSettings:
        """Validate the settings; raises `InvalidSetting`."""
        if profile not in {"A", "B"}:
            raise InvalidSetting("--webhook-profile takes A or B")
        if pages and profile != "B":
            raise InvalidSetting("--webhook-pages needs --webhook-profile B, which has the event")
        # A notebook and its local service run on the same machine.
        allow_loopback = mode == "local" if loopback is None else loopback
        return cls("B" if profile == "B" else "A", pages, allow_loopback)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The upstream proxy of the network; the settings of a job's session override each field.

    Attributes
    ----------
    proxy
        The URL of an http or https proxy, without repr because it may contain a password.
    ca_bundle
        A PEM file of certificate authorities, trusted in addition to the system's.
    """

    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None

    @classmethod
    def checked(cls, *, proxy: str | None, ca_bundle: str | None) -> Upstream:
        """Validate the settings; no `InvalidSetting` shows the URL, which may hold a password."""
        try:
            checked_proxy = None if proxy is None else fields.proxy_url(proxy)
        except ValueError as error:
            raise InvalidSetting(f"--proxy (WEBDATA_PROXY) {error}") from None
        if ca_bundle is None:
            return cls(checked_proxy)
        if not _has_certificates(Path(ca_bundle)):
            raise InvalidSetting(
                "--ca-bundle (WEBDATA_CA_BUNDLE) takes a file of certificates in PEM form, which "
                f"{ca_bundle} is not"
            )
        return cls(checked_proxy, str(Path(ca_bundle).absolute()))

    def of(self, context: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return proxy and CA bundle for a job with this context."""
        return context.get("proxy") or self.proxy, context.get("ca_bundle") or self.ca_bundle


DIRECT: Final = Upstream()


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Validated start options."""

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
    store_url: str | None = field(default=None, repr=False)
    slots: int = SLOTS
    page_workers: int | None = None
    replica: str | None = None
    blobs_url: str | None = field(default=None, repr=False)
    dask: DaskAddress | None = None
    signing_keys: Path | None = None

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
        slots: int | None = None,
        replica: str | None = None,
        blobs: str | None = None,
        dask: str | None = None,
        dask_insecure: bool = False,
        signing_keys: Path | None = None,
    ) -> ServiceSettings:
        """Validate the options of a command; raises `InvalidSetting`."""
        store_url, keys = team_store_url(store, mode), secret_keys()
        if store_url is not None and not keys:
            raise InvalidSetting(
                f"--store {_scheme(store_url)}://... needs {SECRET_KEY}, the same for every "
                "process of the service: `webdata secrets new-key` prints a new one"
            )
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
            keys,
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
            store_url=store_url,
            slots=_slots(slots),
            replica=replica_name(replica, mode, store_url),
            blobs_url=blobs_url(blobs),
            dask=dask_address(dask, store_url, insecure=dask_insecure),
            signing_keys=signing_key_file(signing_keys, data_dir),
        )

    @property
    def cipher(self) -> SecretCipher:
        """The cipher of jobs' secrets, from the configured keys or the key file."""
        return secret_cipher_for(self.data_dir, self.secret_keys)


def signing_key_file(named: Path | None, data_dir: Path) -> Path | None:
    """Return the file of the keys that sign requests to web sites; None if they are not signed.

    Without `named` it is that of the environment, or that of the data directory if there is one.

    Raises
    ------
    InvalidSetting
        The file cannot be read, or is no such file.
    """
    if named is None and os.environ.get(SIGNING_KEYS):
        named = Path(os.environ[SIGNING_KEYS])
    path = (named or data_dir / SIGNING_KEY_FILE).absolute()
    if named is None and not path.exists():
        return None
    try:
        SigningKeyFile(path).read()
    except ValueError as error:
        raise InvalidSetting(
            f"--signing-keys ({SIGNING_KEYS}): {error}; `webdata signing-keys create` makes one"
        ) from None
    return path


def dask_address(text: str | None, store_url: str | None, *, insecure: bool) -> DaskAddress | None:
    """Return the address of the cluster that runs jobs, or None; raises `InvalidSetting`."""
    if text is None:
        if insecure:
            raise InvalidSetting("--dask-insecure is for --dask tcp://HOST:PORT")
        return None
    try:
        address = parse_dask_address(text, insecure=insecure)
    except ValueError as error:
        raise InvalidSetting(f"--dask {error}") from None
    if store_url is None:
        raise InvalidSetting(
            "--dask needs --mode team and --store postgresql://...: its workers are processes of "
            "their own, and SQLite is for one process"
        )
    return address


def team_store_url(text: str | None, mode: Mode = "team") -> str | None:
    """Return the URL of a team's database; None for SQLite in the data directory.

    Without `text` it is that of the environment. No message shows a URL: it has a password.

    Raises
    ------
    InvalidSetting
        The URL has another scheme, or the mode is local.
    """
    if text is None and mode == "team":
        text = os.environ.get(STORE)
    if not text or text == "sqlite":
        return None
    if _scheme(text) not in {"postgresql", "postgres"}:
        raise InvalidSetting(
            f"--store ({STORE}) takes sqlite (the default: jobs in the data directory), or a URL "
            "such as postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    _check_store_url(text)
    if mode == "local":
        raise InvalidSetting(
            "--store on PostgreSQL is for services with accounts: add --mode team, or leave out "
            "--store"
        )
    return text


def blobs_url(text: str | None) -> str | None:
    """Return the URL of the folder for files; None for database and data directory.

    Without `text` it is that of the environment. No message shows a URL: it may have a password.

    Raises
    ------
    InvalidSetting
        It is no URL, a relative one, or one of several file systems.
    """
    text = text or os.environ.get(BLOBS) or None
    if text is None:
        return None
    scheme, _, rest = text.partition("://")
    if not _URL_SCHEME.fullmatch(scheme) or "::" in text or not (rest or scheme == "memory"):
        raise InvalidSetting(
            f"--blobs ({BLOBS}) takes the URL of a folder, such as file:///srv/webdata-files or "
            "s3://BUCKET/FOLDER"
        )
    if scheme == "file" and (not rest.startswith("/") or not rest.strip("/")):
        raise InvalidSetting(
            f"--blobs ({BLOBS}) takes a file URL with three slashes and an absolute path, such as "
            "file:///srv/webdata-files"
        )
    return text


def _check_store_url(url: str) -> None:
    """Raise `InvalidSetting` if libpq would take a part of the password for something else.

    Its own errors would show that part.
    """
    rest = url.partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    _, has_user, hosts = authority.rpartition("@")
    is_split = rest.count("@") > 1 or ("@" in rest and not has_user) or "#" in rest
    if is_split or re.search(r"%(?![0-9A-Fa-f]{2})", rest):
        raise InvalidSetting(
            f"--store ({STORE}): the special characters of the password must be percent-encoded, "
            "such as %40 for @, %2F for /, %23 for # and %25 for %"
        )
    for host in hosts.split(","):
        port = re.fullmatch(r"(?:\[[^]]*\]|[^:]*)(?::(\d*))?", host)
        if port is None or (port[1] and int(port[1]) > LAST_PORT):
            raise InvalidSetting(
                f"--store ({STORE}): the port is a number up to {LAST_PORT}, as in "
                "postgresql://USER:PASSWORD@HOST:5432/DATABASE; special characters of the "
                "password must be percent-encoded"
            )


def replica_name(text: str | None, mode: Mode, store_url: str | None) -> str | None:
    """Return the name of a process beside others; None if it is alone on its store.

    Without `text` it is that of the environment, or host name and process id.

    Raises
    ------
    InvalidSetting
        The name has other characters, or the store is for one process.
    """
    if text is None and mode == "team":
        text = os.environ.get(REPLICA) or None
    if store_url is None:
        if text is not None:
            raise InvalidSetting(
                f"--replica ({REPLICA}) names one of several processes on PostgreSQL: add "
                "--mode team --store postgresql://..., or leave it out"
            )
        return None
    if text is None:
        return f"{_host_name()}-{os.getpid()}"
    if not _REPLICA_NAME.fullmatch(text):
        raise InvalidSetting(
            f"--replica ({REPLICA}) takes 1 to 64 letters, digits, '.', '_' and '-', the first a "
            f"letter or a digit, not {text[:80]!r}"
        )
    return text


def _host_name() -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node()).lstrip("._-")[:48]
    return name or "replica"


def unreserved_slots(slots: int) -> int:
    """Return how many slots jobs of any account may take: two thirds.

    The others are reserved for accounts without a running job, which need not wait for other
    accounts' jobs.
    """
    return slots - slots // 3


def _slots(count: int | None) -> int:
    if count is None:
        return SLOTS
    if not 1 <= count <= MAX_SLOTS:
        raise InvalidSetting(f"--slots takes a whole number from 1 to {MAX_SLOTS}, not {count}")
    return count


def _scheme(url: str) -> str:
    return url.partition("://")[0] if "://" in url else ""


def secret_keys() -> tuple[str, ...]:
    """Return the encryption keys of the environment; raises `InvalidSetting`."""
    try:
        return check_keys(os.environ.get(SECRET_KEY, ""))
    except ValueError as error:
        raise InvalidSetting(str(error)) from None


def secret_cipher_for(data_dir: Path, keys: tuple[str, ...]) -> SecretCipher:
    """Return a cipher with `keys`, or with the key file of the data directory."""
    return SecretCipher(FixedKeys(keys) if keys else KeyFile(data_dir / KEY_FILE))


def _user_agent(text: str | None) -> str:
    try:
        return USER_AGENT if text is None else fields.user_agent(text)
    except ValueError as error:
        raise InvalidSetting(f"--user-agent {error}") from None


def providers(environ: Mapping[str, str]) -> SessionSettings:
    """Read the operator's providers from variables such as WEBDATA_BRAVE_KEY."""
    values = {name: text.strip() for name, text in environ.items() if text.strip()}
    groups: dict[bool, dict[str, dict[str, object]]] = {False: {}, True: {}}
    try:
        for name, text in values.items():
            if (variable := variables.provider_variable(name)) is not None:
                value = variables.provider_value(name, variable, text)
                groups[variable.llm].setdefault(variable.provider, {})[variable.part] = value
    except ValueError as error:
        raise InvalidSetting(str(error)) from None
    settings = {
        "engines": variables.engine_providers(values),
        "providers": groups[False],
        "llm": groups[True],
        "creatives": _creatives(values, groups[False]),
    }
    try:
        return SessionSettings.model_validate(settings)
    except ValidationError as error:
        invalid = (
            "_".join(map(str, problem["loc"])) for problem in error.errors(include_input=False)
        )
        raise InvalidSetting(f"not allowed in the environment: {', '.join(invalid)}") from None


def _creatives(
    values: Mapping[str, str], access: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """Return the operator's source of creatives with its URL and key."""
    source = values.get("WEBDATA_CREATIVES_SOURCE")
    if source is not None and source not in SOURCES:
        raise InvalidSetting(f"WEBDATA_CREATIVES_SOURCE must be one of {', '.join(SOURCES)}")
    source_access = access.get(source or "", {})
    terms = values.get("WEBDATA_CREATIVES_TERMS")
    return {
        "source": source,
        "terms": terms,
        "url": source_access.get("url"),
        "key": source_access.get("key"),
    }


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
    for option, value in (
        ("--connections-per-address", per_address),
        ("--requests-per-account", per_account),
    ):
        if value is not None and value < 1:
            raise InvalidSetting(f"{option} takes a whole number from 1, not {value}")
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
