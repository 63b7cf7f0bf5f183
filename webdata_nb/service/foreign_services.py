"""Reads the error replies of foreign services, and lists their known limits. Pure.

Search providers, language models and sources of ads describe what is wrong in the body of a reply,
whatever its status. `read_error` is the one reader of those bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import quote, quote_plus

from webdata_nb.foreign_json import MalformedJson, decode_json

ErrorKind = Literal["auth", "quota", "rate_limited", "too_long", "too_much", "transient"]
"""What an error reply means: the key or the subscription is not accepted; the plan is used up;
too many requests; the query or text is too long; the reply would be too large; it may pass."""

MAX_REASON_CHARS: Final = 200
_MAX_BODY_BYTES: Final = 256 * 1024
_MAX_DEPTH: Final = 6
_MAX_TEXTS: Final = 3
_MASK: Final = "***"
# Keys of real services are longer; parts of a shorter one may be ordinary words.
_MIN_KEY_WITH_PARTS: Final = 16
_MIN_PART: Final = 4
_MIN_UNBOUNDED: Final = 8

# Where error replies keep their message, the most specific member first.
_TEXT_MEMBERS: Final = (
    "message",
    "error_description",
    "error",
    "errors",
    "detail",
    "details",
    "info",
    "msg",
    "description",
    "reason",
    "title",
    "response",
    "status",
)
_CODE_MEMBERS: Final = ("code", "type", "status", "error_code", "errorCode", "tag")
_CODED_MEMBERS: Final = ("error", "errors", "detail")

_LIKE_A_KEY: Final = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|tvly|key)[-_][\w-]{8,}"
    r"|[\w-]*\*{2,}[\w*-]*"
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{24,}\b"
)
_NAMED_KEY: Final = re.compile(
    r"(?i)\b(bearer\s+|[\w-]*(?:key|token|secret|password)\"?(?:=|:\s*(?=\S*\d))[\"']?)[^\s&\"',;)]+"
)
_STATUS_CODE: Final = re.compile(r"[45][0-9]{2}")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']*'(?!\w)")


@dataclass(frozen=True, slots=True)
class QueryLimit:
    """The longest query that a search provider takes; `words` is None without a limit of them."""

    characters: int
    words: int | None = None

    def problem(self, text: str) -> str:
        """Return why a query is too long; empty if it is not."""
        length, words = len(text), len(text.split())
        if length <= self.characters and (self.words is None or words <= self.words):
            return ""
        limits = f"{self.characters} characters"
        counts = f"{length} characters"
        if self.words is not None:
            limits, counts = f"{limits} and {self.words} words", f"{counts} and {words} words"
        return f"it takes queries of {limits} at most; this one has {counts}"


QUERY_LIMITS: Final[Mapping[str, QueryLimit]] = {
    "brave": QueryLimit(400, 50),
    "tavily": QueryLimit(400),
}


@dataclass(frozen=True, slots=True)
class KnownError:
    """An error reply whose meaning is known; all conditions that are given must hold.

    Attributes
    ----------
    kind
        What it means.
    meaning
        The same as a clause.
    services
        The services that it belongs to; empty for any.
    codes
        The code or type in the body, in lower case; empty for any.
    words
        A pattern in the message; None for any.
    """

    kind: ErrorKind
    meaning: str
    services: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    words: re.Pattern[str] | None = None

    def applies(self, service: str, codes: frozenset[str], text: str) -> bool:
        """Return whether a reply is this error."""
        return (
            (not self.services or service in self.services)
            and (not self.codes or not self.codes.isdisjoint(codes))
            and (self.words is None or self.words.search(text) is not None)
        )


def _known(
    kind: ErrorKind, meaning: str, *, of: str = "", codes: str = "", words: str = ""
) -> KnownError:
    return KnownError(
        kind,
        meaning,
        frozenset(of.split()),
        frozenset(codes.split()),
        re.compile(words, re.IGNORECASE) if words else None,
    )


KEY_REFUSED: Final = "the key is not accepted"
PLAN_USED_UP: Final = "the plan is used up"
RATE_LIMITED: Final = "it asks for fewer requests"
_SUBSCRIPTION_ENDED: Final = "the subscription has ended"
_TOO_MUCH: Final = "it would have to send too much data at once"
_TOO_LONG: Final = "it does not take as much text"
_BROKEN: Final = "it has a passing failure"
_KEY: Final = r"(?:api|access|auth\w*|subscription|licen[cs]e)[ _-]?(?:key|token)s?"
_NOT_VALID: Final = (
    r"(?:invalid|not valid|incorrect|wrong|missing|required|expired|revoked|disabled|unknown"
    r"|not (?:found|accepted|recogni[sz]ed|authori[sz]ed)|inactive|(?:de|not )activated|suspended)"
)
_ENDED: Final = (
    r"(?:expired|ended|cancell?ed|inactive|not active|suspended|disabled|terminated|deactivated)"
)
_AMOUNT: Final = r"(?:credits?|quota|balance|funds|usage limit)"

# The first that applies counts: codes say more than words.
KNOWN_ERRORS: Final[tuple[KnownError, ...]] = (
    _known("too_much", _TOO_MUCH, of="meta_ad_library", codes="1", words="reduce the amount"),
    _known("transient", _BROKEN, of="meta_ad_library", codes="1 2"),
    _known("rate_limited", RATE_LIMITED, of="meta_ad_library", codes="4 17 32 613"),
    _known("auth", KEY_REFUSED, of="meta_ad_library", codes="10 102 190 200"),
    _known("too_long", _TOO_LONG, of="tavily", words=r"query is too long|max\w* query length"),
    _known("rate_limited", RATE_LIMITED, of="mediawiki", codes="maxlag ratelimited readonly"),
    _known("too_long", _TOO_LONG, codes="context_length_exceeded string_above_max_length"),
    _known("quota", PLAN_USED_UP, codes="insufficient_quota billing_hard_limit_reached"),
    _known(
        "auth",
        KEY_REFUSED,
        codes="invalid_api_key api_key_invalid authentication_error invalid_authentication "
        "subscription_token_invalid unauthorized unauthenticated",
    ),
    _known("rate_limited", RATE_LIMITED, codes="rate_limit_exceeded rate_limit_error"),
    _known("transient", _BROKEN, codes="overloaded_error"),
    _known(
        "auth",
        _SUBSCRIPTION_ENDED,
        words=rf"\b(?:subscription|account|plan|licen[cs]e|trial)\b[^.;]{{0,30}}\b{_ENDED}\b"
        rf"|\b{_ENDED} (?:subscription|account|plan|licen[cs]e|trial)\b",
    ),
    _known(
        "auth",
        KEY_REFUSED,
        words=rf"\b(?:{_NOT_VALID}|bad|malformed|no)\b[^.;]{{0,30}}\b(?:{_KEY}|credentials?)\b"
        rf"|\b{_KEY}\b[^.;]{{0,30}}\b{_NOT_VALID}\b"
        r"|^(?:invalid|wrong|bad) (?:key|token)\b|\bun(?:authori[sz]ed|authenticated)\b"
        r"|\bauthentication (?:failed|required|error)|\bnot authenticated\b",
    ),
    _known(
        "quota",
        PLAN_USED_UP,
        words=rf"\b(?:not enough|insufficient|no|out of|used up|exhausted|exceed\w*)\b[^.;]{{0,30}}"
        rf"\b{_AMOUNT}\b"
        rf"|\b{_AMOUNT}\b[^.;]{{0,30}}\b(?:exceeded|exhausted|used up|reached|depleted)"
        r"|\bpayment required\b",
    ),
    _known("rate_limited", RATE_LIMITED, words=r"\brate[ _-]?limit|\btoo many requests\b"),
)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """What the error reply of a foreign service says.

    Attributes
    ----------
    reason
        Its message on one line, without keys, of at most 200 characters; empty without one.
    codes
        Its codes and types in lower case.
    known
        The meaning, where it is known.
    """

    reason: str = ""
    codes: frozenset[str] = frozenset()
    known: KnownError | None = None

    @property
    def kind(self) -> ErrorKind | None:
        """What it means; None if that is not known."""
        return None if self.known is None else self.known.kind

    @property
    def status(self) -> int | None:
        """The HTTP status that the body has as a code, as gateways send with status 200."""
        return next((int(code) for code in self.codes if _STATUS_CODE.fullmatch(code)), None)

    def explain(self, meaning: str) -> str:
        """Return a clause with the service's own words.

        Examples
        --------
        >>> ErrorReply("Invalid API key.").explain("the key is not accepted")
        'the key is not accepted; it says "Invalid API key."'
        """
        return f'{meaning}; it says "{self.reason}"' if self.reason else meaning


def read_error(
    body: bytes,
    *,
    status: int,
    service: str = "",
    secrets: Iterable[str | None] = (),
    echoes: Sequence[str] = (),
) -> ErrorReply:
    """Read the body of an error reply.

    Parameters
    ----------
    body
        The body: JSON of any structure, or text. A web page has no reason.
    status
        Status of the reply. With 429, a message about a quota means one that is soon renewed.
    service
        The name of the service in `KNOWN_ERRORS`.
    secrets
        The keys that the message must not show.
    echoes
        Texts of the request, which the message may quote: they do not decide what it means.

    Examples
    --------
    >>> reply = read_error(b'{"error": {"message": "Invalid API key: abc1"}}', status=400)
    >>> reply.kind, reply.reason
    ('auth', 'Invalid API key: ***')
    """
    if len(body) > _MAX_BODY_BYTES:
        return ErrorReply()
    value = _parse(body)
    text = "; ".join(dict.fromkeys(_texts(value, _MAX_DEPTH)))
    codes = frozenset(_codes(value, _MAX_DEPTH))
    # Without what the message quotes: a query must not decide what the reply means.
    words = text
    for echo in filter(None, (each.strip() for each in echoes)):
        words = re.sub(re.escape(echo), " ", words, flags=re.IGNORECASE)
    words = " ".join(_QUOTED.sub(" ", words).split())
    known = next((each for each in KNOWN_ERRORS if each.applies(service, codes, words)), None)
    if known is not None and known.kind == "quota" and not known.codes:
        is_renewed = status == HTTPStatus.TOO_MANY_REQUESTS
        known = KnownError("rate_limited", PLAN_USED_UP) if is_renewed else known
    reason = mask_keys(" ".join(text.split()), secrets)
    if len(reason) > MAX_REASON_CHARS:
        reason = f"{reason[: MAX_REASON_CHARS - 1]}…"
    return ErrorReply(reason, codes, known)


def has_error(body: bytes) -> bool:
    """Return whether a reply reports an error, whatever its status."""
    return is_error(_parse(body))


def is_error(value: Any) -> bool:
    """Return whether JSON is an error by its member `error` or `errors`."""
    return isinstance(value, dict) and bool(value.get("error") or value.get("errors"))


def _parse(body: bytes) -> Any:
    """Return the JSON value of a body, or its text; nothing for a web page or for bytes."""
    try:
        return decode_json(body)
    except MalformedJson:
        text = body.decode("utf-8", "replace").strip()
    is_text = text[:1] != "<" and "\0" not in text and "\ufffd" not in text
    return text if is_text else None


def _texts(value: Any, depth: int) -> Iterator[str]:
    """Yield the messages of an error: the first member that has some counts."""
    if isinstance(value, str):
        text = "".join(char if char.isprintable() else " " for char in value).strip()
        if text:
            yield text
    elif isinstance(value, list) and depth:
        for item in value[:_MAX_TEXTS]:
            yield from _texts(item, depth - 1)
    elif isinstance(value, dict) and depth:
        for name in _TEXT_MEMBERS:
            if texts := list(_texts(value.get(name), depth - 1)):
                location = value.get("loc")
                if name == "msg" and isinstance(location, list) and location:
                    texts[0] = f"{location[-1]}: {texts[0]}"
                yield from texts
                return


def _codes(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, list) and depth:
        for item in value[:_MAX_TEXTS]:
            yield from _codes(item, depth - 1)
    elif isinstance(value, dict) and depth:
        for name in _CODE_MEMBERS:
            code = value.get(name)
            if isinstance(code, str) or (isinstance(code, int) and not isinstance(code, bool)):
                yield str(code).lower()
        for name in _CODED_MEMBERS:
            yield from _codes(value.get(name), depth - 1)


def mask_keys(text: str, secrets: Iterable[str | None] = ()) -> str:
    """Return a text without keys: those that are known, their parts, and what looks like one.

    Examples
    --------
    >>> mask_keys("GET /search?api_key=s3cret&q=x", ["s3cret"])
    'GET /search?api_key=***&q=x'
    """
    for secret in filter(None, secrets):
        for form in {secret, quote(secret, safe=""), quote_plus(secret)}:
            pattern = re.escape(form)
            if len(form) < _MIN_UNBOUNDED:
                pattern = rf"(?<!\w){pattern}(?!\w)"
            text = re.sub(pattern, _MASK, text, flags=re.IGNORECASE)
        if len(secret) >= _MIN_KEY_WITH_PARTS:
            text = re.sub(r"[\w-]{4,}", lambda part: _mask_part(part[0], secret), text)  # noqa: B023 - called at once
    text = _NAMED_KEY.sub(rf"\1{_MASK}", text)
    return _LIKE_A_KEY.sub(_MASK, text)


def _mask_part(part: str, secret: str) -> str:
    """Mask a part of a key: some services show how the key begins or ends."""
    is_end = len(part) >= _MIN_PART and (secret.startswith(part) or secret.endswith(part))
    return _MASK if is_end or (len(part) >= _MIN_UNBOUNDED and part in secret) else part
