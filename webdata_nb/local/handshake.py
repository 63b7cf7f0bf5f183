"""Whether a local service runs, which one, and whether this toolkit may use it."""

from __future__ import annotations

import enum
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
from pydantic import ValidationError

import webdata_nb
from webdata_nb.contract import local, paths
from webdata_nb.contract.local import Hello, StopRequest
from webdata_nb.local.data_dir import Place

POLL_S: Final = 0.05
_ANSWER_S: Final = 5.0


@dataclass(frozen=True, slots=True, repr=False)
class Running:
    """A local service that answered: its address, its token, and what it says of itself."""

    url: str
    token: str
    hello: Hello

    def __repr__(self) -> str:
        return f"Running({self.url}, version {self.hello.version})"


class Verdict(enum.Enum):
    """What to do with a service that runs."""

    USE = "use"
    REPLACE = "replace"
    REFUSE = "refuse"


def verdict(hello: Hello, version: str | None = None) -> Verdict:
    """Judge a running service against our own `version`.

    A newer toolkit replaces an older service that nobody uses, unless a person started it; one
    that speaks our wire is used, whatever its version; anything else is refused.
    """
    newer = _release(version or webdata_nb.__version__) > _release(hello.version)
    idle = not hello.active_jobs and not hello.leases
    if newer and idle and hello.managed:
        return Verdict.REPLACE
    return Verdict.USE if hello.wire == local.WIRE else Verdict.REFUSE


def _release(version: str) -> tuple[int, ...]:
    """Return the release segment alone: pre-releases of one release do not replace each other."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def refusal(hello: Hello, data_dir: Path) -> str:
    """Say why the service cannot be used, and what helps."""
    ours = webdata_nb.__version__
    start = f"The local service on {data_dir} is version {hello.version}, "
    if hello.wire > local.WIRE:
        return (
            f"{start}too new for this webdata_nb {ours}: upgrade this one, or set WEBDATA_HOME to "
            "another directory (an older version never opens a newer one's data)."
        )
    use = f"{hello.active_jobs} active jobs, {hello.leases} other sessions"
    why = f"in use ({use})" if hello.managed else "started by `webdata serve`"
    return (
        f"{start}too old for this webdata_nb {ours}, and {why}: wait until it is idle, or end it "
        "with `webdata stop`; its jobs go on in the new version."
    )


async def greet(where: Place) -> Running | None:
    """Return the service that runs at this place, or None where none answers for itself."""
    runtime = where.runtime()
    # Without the lock the file's writer is dead, and its port may be a stranger's by now.
    if runtime is None or not where.served():
        return None
    try:
        async with http(runtime.url, runtime.token) as client:
            answer = await client.get(paths.LOCAL_HELLO)
        hello = Hello.model_validate_json(answer.content)
    except (httpx.HTTPError, ValidationError):
        return None
    return Running(runtime.url, runtime.token, hello) if hello.service == local.SERVICE else None


async def ask_to_stop(running: Running, *, force: bool) -> None:
    """Ask for a graceful stop; an unforced one is refused while anyone uses the service."""
    body = StopRequest(force=force).model_dump()
    try:
        async with http(running.url, running.token) as client:
            await client.post(paths.LOCAL_STOP, json=body)
    except httpx.HTTPError:
        return  # the caller looks whether it is gone


def http(url: str, token: str) -> httpx.AsyncClient:
    """Return a client for control calls: loopback only, no proxy, no kept connections."""
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=_ANSWER_S,
        trust_env=False,
        # Plain http: loading the system's certificates would be the slowest part of a call.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        # A connection that idles from one heartbeat to the next is closed under our feet.
        limits=httpx.Limits(max_keepalive_connections=0),
    )
