"""robots.txt by RFC 9309: fetched once a job and origin, frozen with the job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import orjson
from protego import Protego

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.charset import Charset, to_text
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.urls import origin

AGENT: Final = "webdata_nb"
# RFC 9309, 2.5: parsers must read at least 500 KiB, and may stop there.
READ: Final = 500 * 1024
TIMEOUT_S: Final = 20.0
MAX_DELAY_S: Final = 30.0
# The RFC fixes the encoding; no header or guess changes it.
UTF_8: Final = Charset("UTF-8", "default")
_PREFIX: Final = "robots:"


@dataclass(frozen=True, slots=True)
class Answer:
    """How a site answered for its robots.txt. `status` 0: it could not be reached."""

    status: int
    body: str
    problem: str = ""

    @property
    def unreachable(self) -> bool:
        """Whether RFC 9309 (2.3.1.4) asks to assume a complete disallow."""
        return self.status == 0 or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def rules(self) -> str:
        """The rules in force: none at all where the file is unavailable (2.3.1.3)."""
        return self.body if self.status < HTTPStatus.MULTIPLE_CHOICES else ""


class Robots:
    """The robots files of one job."""

    def __init__(self, fetcher: Fetcher, frozen: Mapping[str, bytes]) -> None:
        self._fetcher = fetcher
        self._answers: dict[str, Answer] = {}
        self._rules: dict[str, Protego] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._unsaved: list[tuple[str, bytes]] = []
        for name, body in frozen.items():
            if name.startswith(_PREFIX):
                self._keep(name.removeprefix(_PREFIX), Answer(**orjson.loads(body)))

    async def allowed(self, url: str) -> bool:
        """Tell whether the site lets us fetch `url`."""
        answer = await self.answer(url)
        if answer.unreachable:
            return False
        return bool(self._rules[origin(url)].can_fetch(url, AGENT))

    async def delay_s(self, url: str) -> float:
        """Return the crawl-delay that the site asks for, up to a bound."""
        await self.answer(url)
        return min(float(self._rules[origin(url)].crawl_delay(AGENT) or 0.0), MAX_DELAY_S)

    async def answer(self, url: str) -> Answer:
        """Return the site's answer, asked for once."""
        site = origin(url)
        async with self._locks.setdefault(site, asyncio.Lock()):
            if site not in self._answers:
                answer = await self._ask(site)
                self._keep(site, answer)
                frozen = {"status": answer.status, "body": answer.body, "problem": answer.problem}
                self._unsaved.append((_PREFIX + site, orjson.dumps(frozen)))
        return self._answers[site]

    def unsaved(self) -> tuple[tuple[str, bytes], ...]:
        """Return, once, the snapshots that the job has yet to store."""
        fresh, self._unsaved = tuple(self._unsaved), []
        return fresh

    def _keep(self, site: str, answer: Answer) -> None:
        self._answers[site] = answer
        self._rules[site] = Protego.parse(answer.rules)

    async def _ask(self, site: str) -> Answer:
        try:
            request = FetchRequest(f"{site}/robots.txt", timeout_s=TIMEOUT_S)
            fetched = await self._fetcher.fetch(request)
        except FetchError as error:
            return Answer(0, "", str(error))
        return Answer(fetched.status, to_text(fetched.body[:READ], UTF_8))
