"""A session's hold on the local service: a lease, kept by heartbeat until it is given back."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import time
import uuid
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import ValidationError

from webdata_nb.contract import paths
from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.local import (
    Access,
    Creatives,
    LeaseReply,
    ModelAccess,
    SessionSettings,
)
from webdata_nb.errors import InvalidArgument, LocalServiceError
from webdata_nb.local.data_dir import Place
from webdata_nb.local.handshake import Running, http
from webdata_nb.settings import LanguageModel, Provider, Settings

_FAREWELL_S: Final = 1.0


class LocalService:
    """The local service, held by a lease until `close()`.

    Attributes
    ----------
    base_url : str
        Where it answers.
    token : str
        The bearer token of every request to it.
    lease_id : str
        To be sent with every request as `contract.paths.LEASE_HEADER`, so that jobs use the
        settings of the session that started them.
    """

    def __init__(self, where: Place, running: Running, handed: SessionSettings) -> None:
        self.base_url = running.url
        self.token = running.token
        self.lease_id = uuid.uuid4().hex
        self._where = where
        self._handed = handed
        self._http = http(running.url, running.token)
        self._lease = paths.fill(paths.LOCAL_LEASE, lease_id=self.lease_id)
        self._every_s = 0.0
        self._beaten_at = 0.0
        self._wanted: tuple[Path, Path] | None = None
        self._served: Settings | None = None
        self._pid = os.getpid()
        self._lost = False
        self._heart: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"LocalService({self.base_url}, lease {self.lease_id})"

    @classmethod
    async def attach(
        cls, where: Place, running: Running, handed: SessionSettings
    ) -> LocalService | None:
        """Take a lease on a running service; None where it is going, or gone."""
        service = cls(where, running, handed)
        try:
            taken = await service._beat()
        except (httpx.HTTPError, ValidationError):
            taken = False
        except BaseException:
            await service.close()
            raise
        if not taken:
            await service.close()
            return None
        service._heart = asyncio.create_task(service._keep_beating(), name="webdata lease")
        _HELD.add(service)
        return service

    def serves(self, settings: Settings) -> None:
        """Note the settings that led here, for `fresh`."""
        self._served = settings
        self._wanted = (settings.data_dir, settings.log_dir)

    def fresh(self, settings: Settings, since: float) -> bool:
        """Whether the lease was renewed for these settings by a request sent after `since`.

        Calls that wait for their turn together need not each ask the service again.
        """
        return (
            not self._lost
            and self._pid == os.getpid()
            and self._beaten_at >= since
            # The inputs of one call share their settings.
            and (settings is self._served or self._leads_here(settings))
        )

    def _leads_here(self, settings: Settings) -> bool:
        places = (settings.data_dir, settings.log_dir)
        return self._wanted == places and self._handed == handed_over(settings)

    async def renew(self, where: Place, handed: SessionSettings) -> bool:
        """Renew the lease and hand over changed settings; False where the lease is lost.

        Lost are a lease on a service that is gone, one in another place, one given back, and one
        that belongs to the process which this one was forked from.
        """
        if self._lost or where != self._where or self._pid != os.getpid():
            return False
        changed, self._handed = handed != self._handed, handed
        try:
            return await self._beat(hand_over=changed)
        except (httpx.HTTPError, ValidationError):
            return False

    async def _beat(self, *, hand_over: bool = False) -> bool:
        """Renew the lease; a new one, as after a long sleep, needs the settings again."""
        # A free lock says that the service is dead; then a stranger may have its port.
        if self._lost or not self._where.served():
            return False
        began = time.monotonic()
        answer = await self._http.put(self._lease)
        if answer.status_code != httpx.codes.OK:
            return False
        lease = LeaseReply.model_validate_json(answer.content)
        self._every_s = lease.expires_in / 3
        self._beaten_at = began
        return await self._hand_over() if lease.created or hand_over else True

    async def _hand_over(self) -> bool:
        where = paths.fill(paths.LOCAL_SETTINGS, lease_id=self.lease_id)
        answer = await self._http.put(where, json=self._handed.model_dump(mode="json"))
        if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
            raise LocalServiceError(
                f"The local service does not understand these provider settings: {answer.text}"
            )
        return answer.is_success

    async def _keep_beating(self) -> None:
        while not self._lost:
            await asyncio.sleep(self._every_s)
            # Without an answer the machine may be busy, or just awake: the next may get through.
            with contextlib.suppress(httpx.HTTPError, ValidationError):
                self._lost = not await self._beat()

    async def close(self) -> None:
        """Stop the heartbeat and give the lease back; the service may then leave."""
        _HELD.discard(self)
        if self._pid != os.getpid():  # forked: task, sockets and lease are the parent's
            return
        if self._heart is not None:
            self._heart.cancel()
        if not self._lost:
            self._lost = True
            with contextlib.suppress(httpx.HTTPError):
                await self._http.delete(self._lease, timeout=_FAREWELL_S)
        await self._http.aclose()

    def give_back(self) -> None:
        """Do the same at the interpreter's end, when no loop runs any more."""
        if self._lost or self._pid != os.getpid():
            return
        self._lost = True
        with contextlib.suppress(httpx.HTTPError):
            httpx.delete(
                self.base_url + self._lease,
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=_FAREWELL_S,
                trust_env=False,
            )


def handed_over(settings: Settings) -> SessionSettings:
    """Return what the service must know to carry out this session's jobs."""
    return SessionSettings.model_validate(
        {
            "engines": settings.engines,
            "providers": _access(settings.providers),
            "llm": _models(settings.llm),
            "creatives": _creatives(settings),
            "proxy": settings.proxy,
            "ca_bundle": settings.ca_bundle,
            "user_agent": settings.user_agent,
        }
    )


def _creatives(settings: Settings) -> Creatives:
    """Return the source of creatives, with its address and key out of the providers."""
    access = _access(settings.providers).get(settings.creatives_source or "", Access())
    return Creatives.model_validate(
        {
            "source": settings.creatives_source,
            "terms": settings.creatives_terms,
            "url": access.url,
            "key": access.key,
        }
    )


def _access(providers: Mapping[str, Provider]) -> dict[str, Access]:
    return {
        name: Access(url=one.url, key=one.key.reveal() if one.key else None)
        for name, one in providers.items()
    }


def _models(providers: Mapping[str, Provider]) -> dict[str, ModelAccess]:
    try:
        return {name: _model(one) for name, one in providers.items()}
    except ValidationError as error:
        [first, *_] = error.errors(include_input=False)
        where = "_".join(map(str, first["loc"]))
        raise InvalidArgument(f"llm: {where}: {plain_message(first)}") from None


def _model(one: Provider) -> ModelAccess:
    told: dict[str, Any] = {"url": one.url, "key": one.key.reveal() if one.key else None}
    if isinstance(one, LanguageModel):
        told |= {"model": one.model, "context": one.context, "timeout": one.timeout}
        told |= {"models": one.models} if one.models else {}
    return ModelAccess.model_validate(told)


# Leases not given back: the service should not have to wait for them to run out.
_HELD: Final[weakref.WeakSet[LocalService]] = weakref.WeakSet()


@atexit.register
def _give_all_back() -> None:
    for service in list(_HELD):
        service.give_back()
