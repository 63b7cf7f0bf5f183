"""Defines the keys of a service, and which of them signs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from webdata_nb.service.signing.signing_key import SigningKey

MAX_KEYS: Final = 16
_LABEL: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ORIGIN: Final = re.compile(
    rf"https://(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::(?P<port>[1-9][0-9]{{0,4}}))?"
)
_DEFAULT_PORT: Final = ":443"
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class SigningKeySet:
    """The identity of a service towards web sites: its address and its keys.

    Attributes
    ----------
    agent
        The origin at which the directory of the keys is published, such as
        ``https://bot.example.com``.
    keys
        The keys in the order of their start. Only the last one has no end.
    """

    agent: str
    keys: tuple[SigningKey, ...]

    @classmethod
    def from_json(cls, content: bytes) -> SigningKeySet:
        """Return the keys of a file.

        Raises
        ------
        ValueError
            It has another form. The message has none of its values but the agent.
        """
        try:
            stored = orjson.loads(content)  # noqa: TID251 - the operator's own file
        except orjson.JSONDecodeError:
            raise ValueError("it is not JSON") from None
        jwks = stored.get("keys") if isinstance(stored, dict) else None
        if not isinstance(jwks, list) or not 1 <= len(jwks) <= MAX_KEYS:
            raise ValueError(f"it has no list `keys` of 1 to {MAX_KEYS} keys")
        agent = check_agent(stored.get("signature_agent"))
        keys = [_key_of(jwk, number) for number, jwk in enumerate(jwks, 1)]
        keys.sort(key=lambda key: key.starts_at)
        if keys[-1].ends_at is not None or any(key.ends_at is None for key in keys[:-1]):
            raise ValueError("its last key must have no `exp`, and every other key one")
        return cls(agent, tuple(keys))

    def to_json(self) -> bytes:
        """Return the content of a key file; a secret."""
        stored = {"signature_agent": self.agent, "keys": [key.private_jwk for key in self.keys]}
        return orjson.dumps(stored, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    def published(self, now: float) -> tuple[SigningKey, ...]:
        """Return the keys of the directory: those that have not ended."""
        return tuple(key for key in self.keys if key.is_published(now))

    def active(self, now: float) -> SigningKey:
        """Return the key that signs: the last one that has started.

        Where none has, because the clock was set back, the first one signs.
        """
        published = self.published(now)
        return next((key for key in reversed(published) if key.starts_at <= now), published[0])

    def rotated(
        self, new_key: SigningKey, *, now: float, keep_s: int, agent: str | None = None
    ) -> SigningKeySet:
        """Return the keys with a new one; the others end `keep_s` after its start."""
        ends_at = new_key.starts_at + keep_s
        earlier = [
            key.ending(ends_at)
            for key in self.published(now)
            # A key that was to start later than the new one would never sign.
            if key.starts_at <= new_key.starts_at
        ]
        return SigningKeySet(
            agent or self.agent, (*(key for key in earlier if key.is_published(now)), new_key)
        )


def _key_of(jwk: object, number: int) -> SigningKey:
    try:
        return SigningKey.from_jwk(jwk if isinstance(jwk, Mapping) else {})
    except ValueError as error:
        raise ValueError(f"its key number {number} {error}") from None


def check_agent(agent: Any) -> str:
    """Return the origin of a directory; raises `ValueError`.

    Examples
    --------
    >>> check_agent("https://Bot.example.com/")
    'https://bot.example.com'
    """
    origin = agent.strip().lower().removesuffix("/") if isinstance(agent, str) else ""
    match = _ORIGIN.fullmatch(origin)
    if match is None or int(match["port"] or 1) > _MAX_PORT:
        raise ValueError(
            "the address of the directory must be an https origin without a path, such as "
            "https://bot.example.com"
        )
    return origin.removesuffix(_DEFAULT_PORT)
