"""Receives a job's webhooks in a notebook or a script: a small server, and an iterator over it."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from webdata_nb import settings
from webdata_nb.contract import events
from webdata_nb.contract.events import EVENT_ID_HEADER
from webdata_nb.contract.outcomes import TERMINAL
from webdata_nb.errors import InvalidArgument, NoWebhook
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.bridge import PORTAL
from webdata_nb.toolkit.stream import Stream

if TYPE_CHECKING:
    from aiohttp import web

    from webdata_nb.settings import Duration

# Verifies a webhook delivery: its signature, and the age of its timestamp.


TOLERANCE_S: Final = 300.0


def verify_signature(
    body: bytes, headers: Mapping[str, str], secret: str, *, tolerance_s: float = TOLERANCE_S
) -> bool:
    """Return whether a webhook delivery was signed with `secret`, and sent lately.

    Parameters
    ----------
    body : bytes
        The request body exactly as received; a body that was decoded and encoded again does not
        verify.
    headers : Mapping[str, str]
        The request's headers, names in any case. Both families of the contract are known,
        `X-Service-Signature` and `X-Webhook-Signature`; where both are present both must match.
    secret : str
        The `webhook_secret` of the job's start. An empty one never verifies.
    tolerance_s : float
        Seconds by which `X-Service-Delivery`, where it is present, may differ from this machine's
        clock; `inf` for any. The header itself is not signed.

    Returns
    -------
    bool
        Compared in constant time. False also for headers that are missing, malformed or sent
        twice: it never raises on what came over the network.

    Notes
    -----
    `sha256=` and the hex HMAC-SHA256 (RFC 2104) of the body. A valid delivery can be sent again
    by whoever saw it: drop events whose `X-Webhook-Id` you have seen.

    Examples
    --------
    >>> from webdata_nb.contract.events import sign
    >>> headers = {"X-Service-Signature": sign(b"{}", "s3cret")}
    >>> verify_signature(b"{}", headers, "s3cret")
    True
    >>> verify_signature(b"{ }", headers, "s3cret")
    False
    """
    recent = events.is_recent(headers, now=time.time(), tolerance_s=tolerance_s)
    return events.verify_signature(body, headers, secret) and recent


BODY_BYTES: Final = 1 << 20
# Events are few and small; a flood of signed ones is no job's.
_MAX_QUEUED_EVENTS: Final = 10_000
# What profile B calls a job's end, whatever its outcome.
_ENDINGS: Final = frozenset({"search.completed", "crawl.completed"})


@dataclass(frozen=True, slots=True)
class Received:
    """One event, verified.

    Attributes
    ----------
    event : str
        Its name, such as `job.completed`.
    job_id : str
        The job that it is about.
    event_id : str
        The same for every copy of one event.
    payload : dict
        The whole body.
    """

    event: str
    job_id: str
    event_id: str
    payload: dict[str, Any] = field(repr=False)

    @property
    def status(self) -> str:
        """The job's state; empty where the event names none."""
        return str(self.payload.get("status", ""))

    @property
    def terminal(self) -> bool:
        """Whether it is the job's last event."""
        return self.event in _ENDINGS or (self.event.startswith("job.") and self.status in TERMINAL)


class Receiver:
    """Serves while its context is open; iterating gives events up to a job's last.

    `receive_webhooks` makes it.

    Attributes
    ----------
    url : str
        The `webhook_url` of the job's start.
    secret : str
        The `webhook_secret` of the job's start; no repr shows it.
    """

    def __init__(
        self,
        secret: str,
        *,
        host: str,
        port: int,
        public_url: str | None,
        job_id: str | None,
        timeout: float | None,
    ) -> None:
        self.secret = secret
        self._path = f"/{secrets.token_urlsafe(16)}"
        self._host, self._port, self._public_url = host, port, public_url
        self._job_id, self._timeout = job_id, timeout
        self._runner: web.AppRunner | None = None
        self._queue: asyncio.Queue[Received] = asyncio.Queue(_MAX_QUEUED_EVENTS)
        self._event_ids: set[str] = set()

    def __repr__(self) -> str:
        return f"Receiver({'closed' if self._runner is None else self._base!r})"

    @property
    def url(self) -> str:
        """Where events are to be sent; not to be guessed."""
        return f"{self._base}{self._path}"

    @property
    def _base(self) -> str:
        if self._public_url is not None:
            return self._public_url.rstrip("/")
        if self._runner is None:
            raise InvalidArgument("the receiver listens only inside its `with` block")
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    # ------------------------------------------------------------------------------ the context

    def __enter__(self) -> Self:
        PORTAL.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        PORTAL.run(self._close())

    async def __aenter__(self) -> Self:
        await PORTAL.call(self._open())
        return self

    async def __aexit__(self, *_: object) -> None:
        await PORTAL.call(self._close())

    async def _open(self) -> None:
        from aiohttp import web  # noqa: PLC0415 - a server, for the few who receive

        app = web.Application(client_max_size=BODY_BYTES)
        app.router.add_post(self._path, self._receive)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise InvalidArgument(f"nothing can listen on {self._host}: {error}") from error
        self._runner = runner

    async def _close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        from aiohttp import web  # noqa: PLC0415 - as above

        body = await request.read()
        if not verify_signature(body, request.headers, self.secret):
            return web.Response(status=401)
        event = _parse_event(body, request.headers.get(EVENT_ID_HEADER))
        if event is None:
            return web.Response(status=400)
        if event.event_id not in self._event_ids and self._job_id in {None, event.job_id}:
            try:
                self._queue.put_nowait(event)
            except asyncio.QueueFull:
                return web.Response(status=503)
            self._event_ids.add(event.event_id)
        return web.Response(status=204)

    # ----------------------------------------------------------------------------- the iteration

    def __iter__(self) -> Iterator[Received]:
        return iter(Stream(self._events))

    def __aiter__(self) -> AsyncGenerator[Received, None]:  # noqa: PYI058 - aclosing needs it
        return self._events()

    async def _events(self) -> AsyncGenerator[Received, None]:
        while True:
            event = await PORTAL.call(self._next())
            yield event
            if event.terminal:
                return

    async def _next(self) -> Received:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._queue.get()
        except TimeoutError:
            raise NoWebhook(
                f"no webhook event arrived within timeout={self._timeout:g} s"
            ) from None


def _parse_event(body: bytes, event_id: str | None) -> Received | None:
    """Return a signed body as an event; None where it is none."""
    try:
        payload = decode_json(body)
    except MalformedJson:
        return None
    if not isinstance(payload, dict) or not isinstance(payload.get("event"), str):
        return None
    return Received(
        payload["event"],
        str(payload.get("job_id", "")),
        event_id or hashlib.sha256(body).hexdigest(),
        payload,
    )


def receive_webhooks(
    *,
    secret: str | None = None,
    job_id: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    public_url: str | None = None,
    timeout: Duration | None = None,
) -> Receiver:
    """Receive a job's webhooks here, verified and each once, up to its end.

    Parameters
    ----------
    secret
        What deliveries are signed with; a fresh one when None, at the result's `secret`. Anything
        that is not signed with it is refused.
    job_id
        Events of other jobs are passed over; when None the first job that ends is the one.
    host, port
        Where to listen; by default this machine alone, on a free port.
    public_url
        The address under which a service elsewhere reaches this receiver, such as a tunnel's; a
        path is added to it. Services take public `https://` addresses only; the local service
        takes this machine's as they are.
    timeout
        Seconds to wait for each event, or a duration such as `"10min"`; for ever when None.

    Returns
    -------
    Receiver
        A context manager, `with` or `async with`, that listens while it is open. Inside, `url` and
        `secret` go to the job's start, and iterating, `for` or `async for`, gives `Received`
        events with `event`, `job_id`, `status` and `payload`, the job's last one last.

    Raises
    ------
    InvalidArgument
        An empty secret, or a port that cannot be listened on.
    NoWebhook
        While iterating: no event arrived within `timeout`. It is a TimeoutError.

    Examples
    --------
    >>> with receive_webhooks() as hooks:
    ...     body = {"webhook_url": hooks.url, "webhook_secret": hooks.secret}
    >>> body["webhook_url"].startswith("http://127.0.0.1:")
    True
    """
    if secret is not None and not secret:
        raise InvalidArgument("secret must not be empty")
    if public_url is not None and not public_url.startswith(("https://", "http://")):
        raise InvalidArgument("public_url must be an http:// or https:// address")
    wait_s = None if timeout is None else settings.seconds(timeout)
    if timeout is not None and (wait_s is None or wait_s <= 0):
        raise InvalidArgument(f"timeout must be {settings.DURATION}; it is {format_value(timeout)}")
    return Receiver(
        secrets.token_urlsafe(32) if secret is None else secret,
        host=host,
        port=port,
        public_url=public_url,
        job_id=job_id,
        timeout=wait_s,
    )
