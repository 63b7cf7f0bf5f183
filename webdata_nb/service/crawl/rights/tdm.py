"""Reads reservations of text and data mining: TDMRep of the W3C community group. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from webdata_nb.contract.choices import Purpose
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.service.crawl.rights.path_pattern import PathPattern
from webdata_nb.service.crawl.rights.signal import RightsSignal, Says, allows, refuses

PATH: Final = "/.well-known/tdmrep.json"
MAX_BYTES: Final = 256 * 1024
MAX_RULES: Final = 1000
# Building a search index is no mining in the sense of the report.
_PURPOSES: Final[tuple[Purpose, ...]] = ("ai-input", "ai-train", "research")
_RESERVED: Final[dict[str, Says]] = {"1": refuses(*_PURPOSES), "0": allows(*_PURPOSES)}


def tdm_reservation(value: str) -> Says:
    """Return what the header or meta tag `tdm-reservation` says; other values are no value.

    Examples
    --------
    >>> tdm_reservation("1")
    {'ai-input': 'refused', 'ai-train': 'refused', 'research': 'refused'}
    >>> tdm_reservation("true")
    {}
    """
    return _RESERVED.get(value.strip(), {})


@dataclass(frozen=True, slots=True)
class TdmRule:
    """One rule of tdmrep.json."""

    pattern: PathPattern
    says: Says
    line: str


@dataclass(frozen=True, slots=True)
class TdmFile:
    """The rules of a tdmrep.json in their order, or why it could not be read."""

    rules: tuple[TdmRule, ...] = ()
    problem: str = ""

    def signals(self, url: str, source: str, read_at: str) -> list[RightsSignal]:
        """Return what the file says of a page: the first rule that matches counts."""
        if self.problem:
            return [RightsSignal("tdm", source, "", read_at, problem=self.problem)]
        rule = next((rule for rule in self.rules if rule.pattern.matches(url)), None)
        return [] if rule is None else [RightsSignal("tdm", source, rule.line, read_at, rule.says)]


def parse_tdm_file(body: bytes) -> TdmFile:
    """Parse a tdmrep.json; never raises. Rules without a location are skipped."""
    if len(body) > MAX_BYTES:
        return TdmFile(problem=f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        entries = decode_json(body)
    except MalformedJson:
        return TdmFile(problem="it is no JSON")
    if not isinstance(entries, list):
        return TdmFile(problem="it is no list of rules")
    if len(entries) > MAX_RULES:
        return TdmFile(problem=f"it has more than {MAX_RULES:,} rules")
    return TdmFile(tuple(rule for entry in entries if (rule := _rule(entry)) is not None))


def _rule(entry: object) -> TdmRule | None:
    if not isinstance(entry, dict):
        return None
    location, value = entry.get("location"), entry.get("tdm-reservation")
    if not isinstance(location, str) or not location.startswith("/"):
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    properties = {
        name: entry[name]
        for name in ("location", "tdm-reservation", "tdm-policy")
        if isinstance(entry.get(name), str | int)
    }
    says = tdm_reservation(str(value)) if is_number else {}
    return TdmRule(PathPattern.of_path(location), says, _json(properties))


def _json(fields: dict[str, object]) -> str:
    return orjson.dumps(fields).decode()
