"""Makes inputs from seeds, and tells whether a parser reads one as it should."""

from __future__ import annotations

import json
import random
import time
import traceback
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.fuzzing.parsers import Parser

# One input in so many is read twice.
_TWICE: Final = 4
_PACKAGE: Final = "webdata_nb"
_ODD_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 0.5, 10**12, 10**30, 1e308, "", "x", "\x00", "\ud800"),
    *([], {}, [[]], [None], [1], ["x"], [{}], {"x": 1}, {"1": {"1": {"1": 1}}}, "<b>&amp;", "0"),
)


def mutate(data: bytes, rng: random.Random, parser: Parser) -> bytes:
    """Return an input with some changes: of its values if it is JSON, of its bytes otherwise."""
    if parser.is_json and rng.random() < 0.7:
        head = data[:1] if data[:1] not in b"[{" else b""
        try:
            value = json.loads(data[len(head) :])
        except (ValueError, RecursionError):
            pass
        else:
            for _ in range(rng.choice((1, 1, 2, 4))):
                value = _with_odd_value(value, rng)
            return head + json.dumps(value).encode()[: parser.max_bytes]
    body = bytearray(data)
    for _ in range(rng.choice((1, 2, 4, 16))):
        at = rng.randrange(len(body) + 1)
        match rng.randrange(6):
            case 0:
                body[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del body[at : at + rng.randint(1, 40)]
            case 2:
                start = rng.randrange(len(body) + 1)
                body[at:at] = body[start : start + rng.randint(1, 200)]
            case 3:
                body[:1] = bytes([rng.randrange(256)])  # which chooses a variant of some parsers
            case 4 if parser.pieces:
                body[at:at] = rng.choice(parser.pieces) * rng.choice((1, 1, 1, 3, 300))
            case _ if parser.pieces:
                body[at:at] = rng.choice(parser.pieces)
    return bytes(body[: parser.max_bytes])


def _with_odd_value(value: Any, rng: random.Random) -> Any:
    """Return JSON with an odd value in one place."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        return value | {name: _with_odd_value(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        return [*value[:at], _with_odd_value(value[at], rng), *value[at + 1 :]]
    return rng.choice(_ODD_VALUES)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a parser; `kind` is the same for all inputs that show it."""

    kind: str
    details: str

    def write(self, folder: Path, parser: Parser, data: bytes) -> None:
        """Write it and its input to files, unless there is one of its kind."""
        name = f"{parser.name.replace(' ', '-')}-{zlib.crc32(self.kind.encode()):08x}"
        if not (folder / name).exists():
            (folder / name).write_bytes(data)
            (folder / f"{name}.txt").write_text(f"{self.kind}\n\n{self.details}", "utf-8")


def check(parser: Parser, data: bytes, *, cpu_s: float | None = None) -> Finding | None:
    """Read an input; return what is wrong, None if nothing is.

    `cpu_s` is the processor time that it may take; None measures none.
    """
    started = time.process_time()
    result = _outcome(parser, data)
    elapsed = time.process_time() - started
    if isinstance(result, Finding):
        return result
    if cpu_s is not None and elapsed > cpu_s:
        return Finding("slow", f"{elapsed:.1f} s of processor time for {len(data):,} bytes")
    text = repr(result)
    if len(text) > parser.output_bytes:
        return Finding("large", f"{len(text):,} characters from {len(data):,} bytes")
    if zlib.crc32(data) % _TWICE == 0 and (again := _outcome(parser, data)) != result:
        other = repr(again)
        if other != text:
            return Finding("not deterministic", f"{text[:2000]}\n\n{other[:2000]}")
    return None


def _outcome(parser: Parser, data: bytes) -> object:
    """Return what a parser makes of an input, its declared error as text, or a finding."""
    try:
        return parser.read(data)
    except parser.errors as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - any other is what is looked for
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _PACKAGE in frame.filename] or list(frames)
        place = f"{Path(own[-1].filename).name}:{own[-1].name}"
        return Finding(f"{type(error).__name__} in {place}", traceback.format_exc())
