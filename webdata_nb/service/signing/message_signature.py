"""Defines the keys that sign requests, HTTP message signatures and the key directory. Pure.

Signatures follow RFC 9421, and the form of keys JSON Web Keys (RFC 7517, RFC 8037).
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# A string of structured fields (RFC 9651, 3.3.3) has printable ASCII characters only.
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")
_TO_ESCAPE: Final = re.compile(r'(["\\])')

SignBytes = Callable[[bytes], bytes]
Parameters = Mapping[str, int | str]
"""Parameters of a signature in their order, such as ``created`` and ``keyid``."""


@dataclass(frozen=True, slots=True)
class CoveredComponent:
    """A part of a message that a signature covers.

    Attributes
    ----------
    identifier
        Its name with parameters, such as ``"@authority"`` or ``"signature-agent";key="sig1"``,
        with the quotation marks.
    value
        Its value in the message.
    """

    identifier: str
    value: str


@dataclass(frozen=True, slots=True)
class MessageSignature:
    """A signature, and what it covers.

    Attributes
    ----------
    label
        Its name in the message.
    signature_input
        The covered components and the parameters, as in `Signature-Input`.
    signature
        The bytes of the signature.
    """

    label: str
    signature_input: str
    signature: bytes


def sign_message(
    label: str, components: Iterable[CoveredComponent], parameters: Parameters, sign: SignBytes
) -> MessageSignature:
    """Sign the components of a message.

    Raises
    ------
    ValueError
        A value has characters that no field may have.
    """
    covered = tuple(components)
    signature_input = signature_input_of(covered, parameters)
    return MessageSignature(
        label, signature_input, sign(signature_base(covered, signature_input).encode("ascii"))
    )


def signature_headers(signatures: Iterable[MessageSignature]) -> dict[str, str]:
    """Return the headers of a message with these signatures."""
    listed = tuple(signatures)
    return {
        "Signature-Input": ", ".join(f"{each.label}={each.signature_input}" for each in listed),
        "Signature": ", ".join(f"{each.label}={byte_sequence(each.signature)}" for each in listed),
    }


def signature_input_of(components: Iterable[CoveredComponent], parameters: Parameters) -> str:
    """Return the value of ``@signature-params`` (RFC 9421, 2.3)."""
    identifiers = " ".join(component.identifier for component in components)
    written = "".join(
        f";{name}={value if isinstance(value, int) else string_item(value)}"
        for name, value in parameters.items()
    )
    return f"({identifiers}){written}"


def signature_base(components: Iterable[CoveredComponent], signature_input: str) -> str:
    """Return what is signed (RFC 9421, 2.5); raises `ValueError`."""
    lines = [f"{each.identifier}: {_checked(each.value)}" for each in components]
    return "\n".join([*lines, f'"@signature-params": {signature_input}'])


def byte_sequence(content: bytes) -> str:
    """Return a byte sequence of structured fields (RFC 9651, 3.3.5)."""
    return f":{b64encode(content).decode()}:"


def string_item(text: str) -> str:
    """Return a string of structured fields; raises `ValueError`."""
    return '"' + _TO_ESCAPE.sub(r"\\\1", _checked(text)) + '"'


def _checked(text: str) -> str:
    if not _PRINTABLE.fullmatch(text):
        raise ValueError("a signed value has printable ASCII characters only")
    return text


_SEED_BYTES: Final = 32
_NO_KEY: Final = "is no Ed25519 private key as a JSON Web Key"


@dataclass(frozen=True)
class SigningKey:
    """An Ed25519 key, and the time during which it is in use. Its repr has no secret.

    Attributes
    ----------
    private_key
        The key; the directory has its public half.
    starts_at
        When it begins to sign (Unix seconds). The directory has it before.
    ends_at
        When it is removed from the directory; None if nothing has replaced it yet.
    """

    private_key: Ed25519PrivateKey = field(repr=False)
    starts_at: int
    ends_at: int | None = None

    @classmethod
    def generate(cls, *, starts_at: int) -> SigningKey:
        """Return a new random key."""
        return cls(Ed25519PrivateKey.generate(), starts_at)

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, Any]) -> SigningKey:
        """Return the key of a private JSON Web Key.

        Raises
        ------
        ValueError
            It is no such key. The message has none of its values.
        """
        starts_at, ends_at = jwk.get("nbf"), jwk.get("exp")
        if jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519":
            raise ValueError(_NO_KEY)
        if type(starts_at) is not int or type(ends_at) not in {int, type(None)}:
            raise ValueError("has no times `nbf` and `exp` in whole seconds")
        text = jwk.get("d")
        if not isinstance(text, str):
            raise ValueError(_NO_KEY)  # noqa: TRY004 - the file has a wrong value
        try:
            seed = urlsafe_b64decode(text.encode("ascii") + b"==")
        except (Base64Error, ValueError):
            raise ValueError(_NO_KEY) from None
        if len(seed) != _SEED_BYTES:
            raise ValueError(_NO_KEY)
        key = cls(Ed25519PrivateKey.from_private_bytes(seed), starts_at, ends_at)
        if jwk.get("x", key.public_x) != key.public_x:
            raise ValueError("has a public half `x` of another key")
        return key

    @cached_property
    def public_x(self) -> str:
        """The public key, as the member ``x`` of a JSON Web Key."""
        return _base64url(self.private_key.public_key().public_bytes_raw())

    @cached_property
    def thumbprint(self) -> str:
        """The SHA-256 thumbprint of the key (RFC 7638), which names it in signatures."""
        members = {"crv": "Ed25519", "kty": "OKP", "x": self.public_x}
        return _base64url(hashlib.sha256(orjson.dumps(members)).digest())

    @property
    def public_jwk(self) -> dict[str, str | int]:
        """The entry of the directory."""
        times = {"nbf": self.starts_at} | ({} if self.ends_at is None else {"exp": self.ends_at})
        return {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": self.thumbprint,
            "x": self.public_x,
            "use": "sig",
            **times,
        }

    @property
    def private_jwk(self) -> dict[str, str | int]:
        """The entry of the key file; a secret."""
        return {**self.public_jwk, "d": _base64url(self.private_key.private_bytes_raw())}

    def is_published(self, now: float) -> bool:
        """Return whether the directory has the key, also if it is yet to start."""
        return self.ends_at is None or self.ends_at > now

    def ending(self, at: int) -> SigningKey:
        """Return the key with an end, unless it has an earlier one."""
        return replace(self, ends_at=at if self.ends_at is None else min(self.ends_at, at))

    def sign(self, content: bytes) -> bytes:
        """Return the signature of some bytes."""
        return self.private_key.sign(content)


def _base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


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
        keys = []
        for number, jwk in enumerate(jwks, 1):
            try:
                keys.append(SigningKey.from_jwk(jwk if isinstance(jwk, Mapping) else {}))
            except ValueError as error:
                raise ValueError(f"its key number {number} {error}") from None
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


DIRECTORY_TAG: Final = "http-message-signatures-directory"
DIRECTORY_LIFETIME_S: Final = 7 * 24 * 3600
"""How long a copy of the directory proves that its keys belong to the service's address."""
_SCHEME: Final = "https://"


def directory_body(keys: SigningKeySet, now: float) -> bytes:
    """Return the JSON Web Key Set of the keys that have not ended, also of those yet to start."""
    return orjson.dumps({"keys": [key.public_jwk for key in keys.published(now)]})


def directory_headers(keys: SigningKeySet, body: bytes, now: float) -> dict[str, str]:
    """Return the headers in which each key signs the directory.

    The signatures are for the authority of the agent, whatever name a client used: nobody else
    can serve the directory as one's own.
    """
    digest = f"sha-256={byte_sequence(hashlib.sha256(body).digest())}"
    components = (
        CoveredComponent('"@authority";req', keys.agent.removeprefix(_SCHEME)),
        CoveredComponent('"content-digest"', digest),
    )
    created = int(now)
    signatures = [
        sign_message(
            f"binding{number}",
            components,
            {
                "created": created,
                "expires": created + DIRECTORY_LIFETIME_S,
                "keyid": key.thumbprint,
                "tag": DIRECTORY_TAG,
            },
            key.sign,
        )
        for number, key in enumerate(keys.published(now))
    ]
    return {"Content-Digest": digest, **signature_headers(signatures)}
