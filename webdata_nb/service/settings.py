"""Declares each option of `webdata serve` and `webdata worker` once, and checks its value.

A field of `ServiceSettings` is the declaration: its name, type, default, description, environment
variable and check, and how it gets to the workers of a cluster. The flags of both commands, the
signatures and docstrings of `serve` and `run_worker`, and the messages about wrong values follow
from it. The module imports nothing heavy, so that a command line can read it quickly.
"""

from __future__ import annotations

import functools
import inspect
import os
import platform
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, get_args

from webdata_nb import __version__
from webdata_nb.contract import limits
from webdata_nb.service.http.client_limits import (
    LOOPBACK,
    LOOPBACK_HOSTS,
    PER_ACCOUNT,
    PER_ADDRESS,
    ClientLimits,
)

if TYPE_CHECKING:
    from webdata_nb.contract.local import SessionSettings
    from webdata_nb.service.encryption import SecretCipher
    from webdata_nb.service.observability.logs import LogFormat

# ruff: noqa: PLC0415 - `webdata --help` reads the options, and must not wait for their checks

# The address of a Dask cluster; unencrypted ones of other machines are refused


MAX_LOCAL_WORKERS: Final = 64
_LOCAL: Final = re.compile(r"local:(\d{1,4})")
_SCHEDULER: Final = re.compile(r"(tls|tcp)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class DaskAddress:
    """A running scheduler, or a number of worker processes to start on this machine.

    Attributes
    ----------
    scheduler
        The URL of the scheduler; None for processes on this machine.
    local_workers
        The number of processes on this machine; 0 with a scheduler.
    """

    scheduler: str | None
    local_workers: int = 0

    @property
    def is_encrypted(self) -> bool:
        """Whether the scheduler is reached through TLS; processes on this machine always are."""
        return self.scheduler is None or self.scheduler.startswith("tls://")

    @property
    def is_loopback(self) -> bool:
        """Whether the scheduler is on this machine."""
        match = _SCHEDULER.fullmatch(self.scheduler or "")
        if match is None or match[2] == "localhost":
            return True
        try:
            return ip_address(match[2].strip("[]")).is_loopback
        except ValueError:
            return False


def parse_dask_address(text: str, *, insecure: bool) -> DaskAddress:
    """Return the address in `text`: ``tls://HOST:PORT``, ``tcp://HOST:PORT`` or ``local:N``.

    Parameters
    ----------
    text
        The address.
    insecure
        Whether a scheduler without TLS may be on another machine.

    Raises
    ------
    ValueError
        It is none, or without TLS on another machine; the message says what is allowed.

    Examples
    --------
    >>> parse_dask_address("local:2", insecure=False)
    DaskAddress(scheduler=None, local_workers=2)
    """
    if (local := _LOCAL.fullmatch(text)) is not None:
        if not 1 <= int(local[1]) <= MAX_LOCAL_WORKERS:
            raise ValueError(
                f"takes local:N with 1 to {MAX_LOCAL_WORKERS} worker processes, not {text}"
            )
        return DaskAddress(None, int(local[1]))
    match = _SCHEDULER.fullmatch(text)
    if match is None or not 1 <= int(match[3]) <= LAST_PORT:
        # The text may be a URL with a password.
        raise ValueError(
            "takes tls://HOST:PORT of a Dask scheduler, tcp://127.0.0.1:PORT of one on this "
            "machine, or local:N for N worker processes on this machine"
        )
    address = DaskAddress(text)
    if not (address.is_encrypted or address.is_loopback or insecure):
        raise ValueError(
            f"refuses {text}: whoever reaches a Dask scheduler can run code on its workers; use "
            "tls:// with certificates, or --dask-insecure in a network that you trust"
        )
    return address


P = ParamSpec("P")
Mode = Literal["local", "team"]
Profile = Literal["A", "B"]
Command = Literal["serve", "worker"]
# Returns the value to use; takes the values of the options that are declared before it. A
# `ValueError` is the end of a sentence about the option.
Check = Callable[[Any, Mapping[str, Any]], Any]

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
LAST_PORT: Final = 65_535
USER_AGENT: Final = f"webdata_nb/{__version__}"
_TEAM_PORT: Final = 8000
_URL_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_REPLICA_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class InvalidSetting(ValueError):
    """An invalid start option; the message says which values are valid."""


# Declarations


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a field of `ServiceSettings` says of its option.

    Attributes
    ----------
    name, annotation, default
        Of the field.
    help, worker_help
        The text of the flag in `webdata serve` and, where it differs, in `webdata worker`.
    group
        The title of its group in the help of `webdata serve`.
    worker
        Whether `webdata worker` takes it too.
    check
        Checks a value, also the default.
    team_default
        The default in team mode, where it differs.
    variable
        The environment variable that an omitted option is read from.
    is_team_variable
        Whether the variable is for team mode only.
    is_toolkit_setting
        Whether it is a setting of the toolkit too, and is resolved as the toolkit does.
    dask
        How a worker of a Dask cluster gets it: `"sent"` by the service, so that anyone who reaches
        the scheduler can read it, or from the `"environment"` of the worker.
    dask_need
        Why a worker of a service that has the option must have its variable too, and what the
        variable has to contain.
    flag
        The flag, with the name of the option by default.
    is_hidden
        Whether the help leaves it out.
    metavar, choices
        Of the flag.
    """

    name: str = ""
    annotation: str = ""
    default: Any = None
    help: str
    worker_help: str | None = None
    group: str | None = None
    worker: bool = False
    check: Check | None = None
    team_default: Any = None
    variable: str | None = None
    is_team_variable: bool = False
    is_toolkit_setting: bool = False
    dask: Literal["sent", "environment"] | None = None
    dask_need: tuple[str, str] | None = None
    flag: str = ""
    is_hidden: bool = False
    metavar: str | None = None
    choices: tuple[str, ...] | None = None

    def text(self, command: Command) -> str:
        """Return what a command says of the option."""
        return self.worker_help if command == "worker" and self.worker_help else self.help

    def read(self, given: Any, earlier: Mapping[str, Any]) -> Any:
        """Return the value to use for what a caller gave, which is None for nothing.

        Raises
        ------
        InvalidSetting
            The value, or that of the environment, is wrong.
        """
        is_team = earlier.get("mode") == "team"
        value = given
        if value is None and self.variable is not None and (is_team or not self.is_team_variable):
            value = os.environ.get(self.variable) or None
        if value is None:
            value = self.team_default if is_team and self.team_default is not None else self.default
        if self.check is None:
            return value
        try:
            return self.check(value, earlier)
        except InvalidSetting:
            raise
        except ValueError as error:
            name = f"{self.flag} ({self.variable})" if self.variable else self.flag
            separator = "" if str(error).startswith(":") else " "
            raise InvalidSetting(f"{name}{separator}{error}") from None


def option(text: str, **declaration: Any) -> Mapping[str, Option]:
    """Return the metadata that declares a field as an option; see `Option`."""
    return {"option": Option(help=text, **declaration)}


_storage: Final = functools.partial(option, group="address and storage")
_web_site: Final = functools.partial(option, group="requests to web sites", worker=True)
_webhook: Final = functools.partial(option, group="webhooks")
_limit: Final = functools.partial(option, group="limits")
_worker: Final = functools.partial(option, group="workers", worker=True)
_observation: Final = functools.partial(option, group="observation")


# Values of several options


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

    search_hours: float
    crawl_hours: float
    job_hours: float


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

    def of(self, context: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return proxy and CA bundle for a job with this context."""
        return context.get("proxy") or self.proxy, context.get("ca_bundle") or self.ca_bundle


DIRECT: Final = Upstream()

# Checks


def _port(port: int, _earlier: Mapping[str, Any]) -> int:
    if not 0 <= port <= LAST_PORT:
        raise ValueError(f"takes a number from 0 to {LAST_PORT}")
    return port


def _host(host: str, earlier: Mapping[str, Any]) -> str:
    if earlier["mode"] == "local" and host not in LOOPBACK_HOSTS:
        raise InvalidSetting(
            f"local mode listens on loopback only, not on {host}; use --mode team to serve "
            "others, with keys"
        )
    return "127.0.0.1" if host == "localhost" else host


def _whole_number(maximum: int | None = None) -> Check:
    """Return a check of a whole number from 1."""
    end = "" if maximum is None else f" to {maximum}"

    def check(number: int, _earlier: Mapping[str, Any]) -> int:
        if number < 1 or (maximum is not None and number > maximum):
            raise ValueError(f"takes a whole number from 1{end}, not {number}")
        return number

    return check


def _hours(hours: float, _earlier: Mapping[str, Any]) -> float:
    if not hours > 0:
        raise ValueError("takes a number of hours above 0, or inf")
    return hours


def _store(text: str | None, earlier: Mapping[str, Any]) -> str | None:
    """Check the URL of a team's database; no message shows it: it has a password."""
    if not text or text == "sqlite":
        return None
    if _scheme(text) not in {"postgresql", "postgres"}:
        raise ValueError(
            "takes sqlite (the default: jobs in the data directory), or a URL such as "
            "postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    # libpq could take a part of the password for something else, and its errors would show that.
    rest = text.partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    _, has_user, hosts = authority.rpartition("@")
    is_split = rest.count("@") > 1 or ("@" in rest and not has_user) or "#" in rest
    if is_split or re.search(r"%(?![0-9A-Fa-f]{2})", rest):
        raise ValueError(
            ": the special characters of the password must be percent-encoded, such as %40 for @, "
            "%2F for /, %23 for # and %25 for %"
        )
    for host in hosts.split(","):
        port = re.fullmatch(r"(?:\[[^]]*\]|[^:]*)(?::(\d*))?", host)
        if port is None or (port[1] and int(port[1]) > LAST_PORT):
            raise ValueError(
                f": the port is a number up to {LAST_PORT}, as in "
                "postgresql://USER:PASSWORD@HOST:5432/DATABASE; special characters of the "
                "password must be percent-encoded"
            )
    if earlier["mode"] == "local":
        raise InvalidSetting(
            "--store on PostgreSQL is for services with accounts: add --mode team, or leave out "
            "--store"
        )
    return text


def _replica(text: str | None, earlier: Mapping[str, Any]) -> str | None:
    """Check the name of a process beside others; None if it is alone on its store."""
    if earlier["store"] is None:
        if text is not None:
            raise ValueError(
                "names one of several processes on PostgreSQL: add --mode team --store "
                "postgresql://..., or leave it out"
            )
        return None
    if text is None:
        host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node()).lstrip("._-")[:48] or "replica"
        return f"{host}-{os.getpid()}"
    if not _REPLICA_NAME.fullmatch(text):
        raise ValueError(
            "takes 1 to 64 letters, digits, '.', '_' and '-', the first a letter or a digit, not "
            f"{text[:80]!r}"
        )
    return text


def _blobs(text: str | None, _earlier: Mapping[str, Any]) -> str | None:
    """Check the URL of a folder; no message shows it: it may have a password."""
    if not text:
        return None
    scheme, _, rest = text.partition("://")
    if not _URL_SCHEME.fullmatch(scheme) or "::" in text or not (rest or scheme == "memory"):
        raise ValueError(
            "takes the URL of a folder, such as file:///srv/webdata-files or s3://BUCKET/FOLDER"
        )
    if scheme == "file" and (not rest.startswith("/") or not rest.strip("/")):
        raise ValueError(
            "takes a file URL with three slashes and an absolute path, such as "
            "file:///srv/webdata-files"
        )
    return text


def _networks(texts: tuple[str, ...], _earlier: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return tuple(str(ip_network(text)) for text in texts)
    except ValueError as error:
        raise ValueError(f"takes a network such as 10.1.0.0/16: {error}") from None


def _user_agent(text: str, _earlier: Mapping[str, Any]) -> str:
    from webdata_nb.contract import fields as contract_fields

    return contract_fields.user_agent(text)


def _proxy(url: str | None, _earlier: Mapping[str, Any]) -> str | None:
    """Check the URL of a proxy; no message shows it: it may have a password."""
    from webdata_nb.contract import fields as contract_fields

    return None if url is None else contract_fields.proxy_url(url)


def _ca_bundle(file: str | None, _earlier: Mapping[str, Any]) -> str | None:
    if file is None:
        return None
    content = b""
    with suppress(OSError):
        content = Path(file).read_bytes()
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise ValueError(f"takes a file of certificates in PEM form, which {file} is not")
    return str(Path(file).absolute())


def _signing_keys(named: Path | str | None, earlier: Mapping[str, Any]) -> Path | None:
    """Check a file of keys: by default that of the data directory, if there is one."""
    from webdata_nb.service.signing.request_signer import KEY_FILE, SigningKeyFile

    path = Path(named or earlier["data_dir"] / KEY_FILE).absolute()
    if named is None and not path.exists():
        return None
    try:
        SigningKeyFile(path).read()
    except ValueError as error:
        raise ValueError(f": {error}; `webdata signing-keys create` makes one") from None
    return path


def _webhook_profile(profile: str, _earlier: Mapping[str, Any]) -> str:
    if profile not in get_args(Profile):
        raise ValueError("takes A or B")
    return profile


def _webhook_pages(pages: bool, earlier: Mapping[str, Any]) -> bool:
    if pages and earlier["webhook_profile"] != "B":
        raise ValueError("needs --webhook-profile B, which has the event")
    return pages


def _trusted_proxies(texts: tuple[str, ...], _earlier: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        _proxy_networks(texts)
    except ValueError as error:
        raise ValueError(
            f"takes an address or a network such as 10.1.0.5 or 10.1.0.0/24, or none alone: {error}"
        ) from None
    return tuple(texts)


def _proxy_networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    if not texts:
        return LOOPBACK
    return () if tuple(texts) == ("none",) else tuple(map(ip_network, texts))


def _dask(is_insecure: bool, earlier: Mapping[str, Any]) -> bool:
    """Check the address of a cluster and this option, which says what the address may be."""
    if earlier["dask"] is None:
        if is_insecure:
            raise ValueError("is for --dask tcp://HOST:PORT")
        return is_insecure
    try:
        parse_dask_address(earlier["dask"], insecure=is_insecure)
    except ValueError as error:
        raise InvalidSetting(f"--dask {error}") from None
    if earlier["store"] is None:
        raise InvalidSetting(
            "--dask needs --mode team and --store postgresql://...: its workers are processes of "
            "their own, and SQLite is for one process"
        )
    return is_insecure


def _metrics(text: str | None, _earlier: Mapping[str, Any]) -> str | None:
    if text is not None:
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 <= int(port) <= LAST_PORT:
            raise ValueError("takes HOST:PORT, such as 127.0.0.1:9100")
    return text


# Settings


def _no_providers() -> SessionSettings:
    from webdata_nb.contract.local import SessionSettings

    return SessionSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The options of `webdata serve`, and of `webdata worker` those with `worker`.

    `checked` returns those of a command; without it, the values have to be right.
    """

    mode: Mode = field(
        default="local",
        metadata=option("one user without keys, or accounts with API keys", choices=get_args(Mode)),
    )
    host: str = field(
        default="127.0.0.1",
        metadata=_storage("address to listen on (default 127.0.0.1)", check=_host),
    )
    port: int = field(
        default=0,
        metadata=_storage(
            f"default: a free one in local mode, {_TEAM_PORT} in team mode",
            team_default=_TEAM_PORT,
            check=_port,
            metavar="PORT",
        ),
    )
    data_dir: Path = field(
        metadata=_storage(
            "data directory (default: depends on the mode)",
            worker=True,
            worker_help="directory of this process, without --dask (default: beside the one of "
            "`serve`)",
            check=lambda path, _earlier: path.absolute(),
            metavar="DIR",
        )
    )
    store: str | None = field(
        default=None,
        repr=False,
        metadata=_storage(
            "PostgreSQL database of a team's service (default: WEBDATA_STORE, or SQLite in DIR)",
            worker=True,
            worker_help="PostgreSQL database of the service (default: WEBDATA_STORE); it is not "
            "sent to Dask workers, which have it in their environment",
            variable=STORE,
            is_team_variable=True,
            check=_store,
            dask="environment",
            metavar="URL",
        ),
    )
    replica: str | None = field(
        default=None,
        metadata=_storage(
            "name of this process among those on one PostgreSQL database (default: "
            "WEBDATA_REPLICA, or host name and process id)",
            worker=True,
            worker_help="name of this process, without --dask (default: WEBDATA_REPLICA, or host "
            "name and process id)",
            variable=REPLICA,
            is_team_variable=True,
            check=_replica,
            metavar="NAME",
        ),
    )
    blobs: str | None = field(
        default=None,
        repr=False,
        metadata=_storage(
            "folder for stored pages and downloaded files, file:///DIR or any URL of fsspec "
            "(default: WEBDATA_BLOBS, or the database and the data directory)",
            worker=True,
            worker_help="the service's folder for files (default: WEBDATA_BLOBS); it is not sent "
            "to Dask workers either",
            variable=BLOBS,
            check=_blobs,
            dask="environment",
            dask_need=("stores pages at --blobs", ""),
            metavar="URL",
        ),
    )
    retention_hours: float = field(
        default=float(limits.RETENTION_HOURS),
        metadata=_storage(
            "how long to keep the rows of a search (default 48)", check=_hours, metavar="H"
        ),
    )
    # The local search reads the rows of crawls, so a local service keeps them longer.
    crawl_retention_hours: float = field(
        default=30 * 24.0,
        metadata=_storage(
            "how long to keep the rows of a crawl (default 720, 168 in team mode; inf: forever)",
            team_default=7 * 24.0,
            check=_hours,
            metavar="H",
        ),
    )
    job_retention_hours: float = field(
        default=90 * 24.0,
        metadata=_storage(
            "how long to keep the record of an ended job (default 2160)", check=_hours, metavar="H"
        ),
    )
    allow_networks: tuple[str, ...] = field(
        default=(),
        metadata=_web_site(
            "private network that jobs may fetch from in team mode; repeatable",
            check=_networks,
            dask="sent",
            flag="--allow-network",
            metavar="CIDR",
        ),
    )
    user_agent: str = field(
        default=USER_AGENT,
        metadata=_web_site(
            "user agent for web sites (default: WEBDATA_USER_AGENT, or the service's own)",
            is_toolkit_setting=True,
            check=_user_agent,
            dask="sent",
            metavar="TEXT",
        ),
    )
    proxy: str | None = field(
        default=None,
        repr=False,
        metadata=_web_site(
            "proxy for all requests (default: WEBDATA_PROXY)",
            is_toolkit_setting=True,
            variable=PROXY,
            check=_proxy,
            dask="environment",
            dask_need=("uses a proxy", ""),
            metavar="URL",
        ),
    )
    ca_bundle: str | None = field(
        default=None,
        metadata=_web_site(
            "certificate authorities to trust (default: WEBDATA_CA_BUNDLE)",
            is_toolkit_setting=True,
            variable=CA_BUNDLE,
            check=_ca_bundle,
            dask="environment",
            metavar="FILE",
        ),
    )
    signing_keys: Path | None = field(
        default=None,
        metadata=_web_site(
            "sign requests with these keys (default: WEBDATA_SIGNING_KEYS, or the file that "
            "`webdata signing-keys create` made in the data directory)",
            variable=SIGNING_KEYS,
            check=_signing_keys,
            dask="environment",
            dask_need=("signs its requests", " to a copy of its file of keys"),
            metavar="FILE",
        ),
    )
    webhook_profile: Profile = field(
        default="A",
        metadata=_webhook(
            "profile of the contract for webhooks",
            check=_webhook_profile,
            choices=get_args(Profile),
        ),
    )
    webhook_pages: bool = field(
        default=False,
        metadata=_webhook("report each crawled page (profile B)", check=_webhook_pages),
    )
    # A notebook and its local service run on the same machine.
    webhook_loopback: bool = field(
        default=True,
        metadata=_webhook(
            "allow webhooks to this machine (default in local mode)", team_default=False
        ),
    )
    slots: int = field(
        default=SLOTS,
        metadata=_limit(
            f"jobs that run at a time (default {SLOTS}), a third of them first jobs of accounts",
            worker=True,
            worker_help=f"jobs that a process runs at a time (default {SLOTS})",
            check=_whole_number(MAX_SLOTS),
            dask="sent",
            metavar="N",
        ),
    )
    trusted_proxies: tuple[str, ...] = field(
        default=(),
        metadata=_limit(
            "address or network of a proxy whose X-Forwarded-For is trusted; repeatable; none to "
            "trust no proxy (default: proxies on this machine)",
            check=_trusted_proxies,
            flag="--trusted-proxy",
            metavar="ADDRESS",
        ),
    )
    connections_per_address: int = field(
        default=PER_ADDRESS,
        metadata=_limit(
            f"open connections of one client address (default {PER_ADDRESS})",
            check=_whole_number(),
            metavar="N",
        ),
    )
    requests_per_account: int = field(
        default=PER_ACCOUNT,
        metadata=_limit(
            f"open requests of one account, event streams included (default {PER_ACCOUNT})",
            check=_whole_number(),
            metavar="N",
        ),
    )
    dask: str | None = field(
        default=None,
        metadata=_worker(
            "run jobs in the workers of a Dask cluster: tls://HOST:PORT of its scheduler, or "
            "local:N for N worker processes on this machine",
            metavar="ADDRESS",
        ),
    )
    dask_insecure: bool = field(
        default=False,
        metadata=_worker(
            "allow tcp:// to a scheduler on another machine; whoever reaches it can run code",
            check=_dask,
        ),
    )
    metrics: str | None = field(
        default=None,
        metadata=_observation(
            "address that serves Prometheus metrics and a health check (default: none)",
            worker=True,
            check=_metrics,
            metavar="HOST:PORT",
        ),
    )
    log_format: LogFormat = field(
        default="text",
        metadata=_observation(
            "json writes one object per line",
            worker=True,
            dask="sent",
            choices=("text", "json"),
        ),
    )
    # Toolkits set it when they start the service.
    managed: bool = field(
        default=False, metadata=option("stop when no client needs the service", is_hidden=True)
    )
    # No options
    providers: SessionSettings = field(default_factory=_no_providers)
    secret_keys: tuple[str, ...] = field(default=(), repr=False)
    stall_s: float = STALL_S
    page_workers: int | None = None

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> ServiceSettings:
        """Return the settings of a command with the options in `given`; None omits one.

        Raises
        ------
        InvalidSetting
            An option or a variable of the environment is wrong.
        """
        values: dict[str, Any] = {}
        for name, each in OPTIONS.items():
            values[name] = each.read(given.get(name), values)
        values["secret_keys"] = secret_keys()
        if values["store"] is not None and not values["secret_keys"]:
            raise InvalidSetting(
                f"--store {_scheme(values['store'])}://... needs {SECRET_KEY}, the same for every "
                "process of the service: `webdata secrets new-key` prints a new one"
            )
        return cls(**values, providers=providers(os.environ))

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The private networks that jobs may fetch from."""
        return tuple(map(ip_network, self.allow_networks))

    @property
    def retention(self) -> Retention:
        """How long results are kept."""
        return Retention(self.retention_hours, self.crawl_retention_hours, self.job_retention_hours)

    @property
    def clients(self) -> ClientLimits:
        """The limits of clients, and the trusted proxies."""
        return ClientLimits(
            self.connections_per_address,
            self.requests_per_account,
            _proxy_networks(self.trusted_proxies),
        )

    @property
    def upstream(self) -> Upstream:
        """The upstream proxy of the network."""
        return Upstream(self.proxy, self.ca_bundle)

    @property
    def cluster(self) -> DaskAddress | None:
        """The address of the cluster that runs jobs."""
        if self.dask is None:
            return None
        return parse_dask_address(self.dask, insecure=self.dask_insecure)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """The host and port of the metrics."""
        if self.metrics is None:
            return None
        host, _, port = self.metrics.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def cipher(self) -> SecretCipher:
        """The cipher of jobs' secrets, from the configured keys or the key file."""
        return secret_cipher_for(self.data_dir, self.secret_keys)


OPTIONS: Final[Mapping[str, Option]] = {
    each.name: replace(
        each.metadata["option"],
        name=each.name,
        annotation=str(each.type),
        default=None if each.default is MISSING else each.default,
        flag=each.metadata["option"].flag or f"--{each.name.replace('_', '-')}",
    )
    for each in fields(ServiceSettings)
    if "option" in each.metadata
}


def options_of(command: Command) -> list[Option]:
    """Return the options of a command, in the order of their declaration."""
    return [each for each in OPTIONS.values() if command == "serve" or each.worker]


def takes_options(
    command: Command, settings: Callable[P, ServiceSettings]
) -> Callable[[Callable[..., int]], Callable[P, int]]:
    """Decorate a function that takes the options of a command as `**options`.

    It gets their part of the signature of `settings` and, in its docstring, their descriptions.
    """
    options = options_of(command)
    declared = inspect.signature(settings).parameters
    signature = inspect.Signature(
        [declared[each.name] for each in options], return_annotation="int"
    )

    def decorate(function: Callable[..., int]) -> Callable[P, int]:
        @functools.wraps(function)
        def complete(*args: P.args, **given: P.kwargs) -> int:
            signature.bind(*args, **given)
            return function(**given)

        del complete.__wrapped__  # inspect would follow it to the shorter signature
        vars(complete)["__signature__"] = signature
        if function.__doc__ is not None:  # it is None under -OO
            texts = {each.name: each.text(command) for each in options}
            lines = [f"{name}\n    {text[:1].upper()}{text[1:]}." for name, text in texts.items()]
            text = "\n".join(["Parameters", "-" * 10, *lines])
            complete.__doc__ = inspect.cleandoc(function.__doc__).replace("{options}", text)
        return complete

    return decorate


# Parts of the settings that other commands need


def team_store_url(text: str | None) -> str | None:
    """Return the URL of a team's database; None for SQLite in the data directory.

    Without `text` it is that of the environment. Raises `InvalidSetting`.
    """
    url: str | None = OPTIONS["store"].read(text, {"mode": "team"})
    return url


def blobs_url(text: str | None) -> str | None:
    """Return the URL of the folder for files; None for database and data directory.

    Without `text` it is that of the environment. Raises `InvalidSetting`.
    """
    url: str | None = OPTIONS["blobs"].read(text or None, {})
    return url


def unreserved_slots(slots: int) -> int:
    """Return how many slots jobs of any account may take: two thirds.

    The others are reserved for accounts without a running job, which need not wait for other
    accounts' jobs.
    """
    return slots - slots // 3


def _scheme(url: str) -> str:
    return url.partition("://")[0] if "://" in url else ""


def secret_keys() -> tuple[str, ...]:
    """Return the encryption keys of the environment; raises `InvalidSetting`."""
    from webdata_nb.service.encryption import check_keys

    try:
        return check_keys(os.environ.get(SECRET_KEY, ""))
    except ValueError as error:
        raise InvalidSetting(str(error)) from None


def secret_cipher_for(data_dir: Path, keys: tuple[str, ...]) -> SecretCipher:
    """Return a cipher with `keys`, or with the key file of the data directory."""
    from webdata_nb.service.encryption import KEY_FILE, FixedKeys, KeyFile, SecretCipher

    return SecretCipher(FixedKeys(keys) if keys else KeyFile(data_dir / KEY_FILE))


def providers(environ: Mapping[str, str]) -> SessionSettings:
    """Read the operator's providers from variables such as WEBDATA_BRAVE_KEY."""
    from pydantic import ValidationError

    from webdata_nb.contract import variables
    from webdata_nb.contract.local import SOURCES, SessionSettings

    values = {name: text.strip() for name, text in environ.items() if text.strip()}
    groups: dict[bool, dict[str, dict[str, object]]] = {False: {}, True: {}}
    try:
        for name, text in values.items():
            if (variable := variables.provider_variable(name)) is not None:
                value = variables.provider_value(name, variable, text)
                groups[variable.llm].setdefault(variable.provider, {})[variable.part] = value
    except ValueError as error:
        raise InvalidSetting(str(error)) from None
    source = values.get("WEBDATA_CREATIVES_SOURCE")
    if source is not None and source not in SOURCES:
        raise InvalidSetting(f"WEBDATA_CREATIVES_SOURCE must be one of {', '.join(SOURCES)}")
    source_access = groups[False].get(source or "", {})
    settings = {
        "engines": variables.engine_providers(values),
        "providers": groups[False],
        "llm": groups[True],
        "creatives": {
            "source": source,
            "terms": values.get("WEBDATA_CREATIVES_TERMS"),
            "url": source_access.get("url"),
            "key": source_access.get("key"),
        },
    }
    try:
        return SessionSettings.model_validate(settings)
    except ValidationError as error:
        invalid = (
            "_".join(map(str, problem["loc"])) for problem in error.errors(include_input=False)
        )
        raise InvalidSetting(f"not allowed in the environment: {', '.join(invalid)}") from None
