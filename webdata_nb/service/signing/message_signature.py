"""Creates HTTP message signatures (RFC 9421). Pure."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

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
    written = "".join(f";{name}={_item(value)}" for name, value in parameters.items())
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


def _item(value: int | str) -> str:
    return str(value) if isinstance(value, int) else string_item(value)


def _checked(text: str) -> str:
    if not _PRINTABLE.fullmatch(text):
        raise ValueError("a signed value has printable ASCII characters only")
    return text
