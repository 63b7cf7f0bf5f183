"""What is remembered of a job that was started here, for whoever attaches to it again.

A ticket is a small file beside the cached results: with it, a job that outlived its kernel gives
the very frame that the call which started it would have given, and answers the same call again.
It holds no secret: of the request only what a receipt shows, and of the rest a digest.
"""

from __future__ import annotations

import hashlib
import logging
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from webdata_nb.cache.snapshots import Question, prepare
from webdata_nb.frames import parquet, private_files, schemas
from webdata_nb.frames.schemas import TableName

_FOLDER: Final = Path("v1", "jobs")
_KEPT_S: Final = 30 * 86_400.0

log = logging.getLogger("webdata_nb")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A job: what it was asked, what its frame shows, and the file once it was collected."""

    job_id: str
    op: TableName
    subject: str
    digest: str
    shown: tuple[str, ...]
    request: dict[str, Any] = field(default_factory=dict)
    file: str | None = None

    @property
    def question(self) -> Question:
        """What its rows answer in the cache."""
        return Question(self.op, self.digest)

    @classmethod
    def foreign(cls, job_id: str, op: TableName, service: str) -> Ticket:
        """Return the ticket of a job that was started elsewhere: all columns are shown."""
        question = Question.of(op, base_url=service, identity="", params={"job_id": job_id})
        shown = tuple(schemas.SCHEMAS[op].names)
        return cls(job_id, op, "", question.digest, shown)


def keep(root: Path, service: str, identity: str, ticket: Ticket) -> None:
    """Write a ticket; where the cache cannot be written, the job is just not remembered."""
    path = _path(root, service, identity, ticket.job_id)
    with suppress(OSError):
        if not path.parent.is_dir():
            prepare(root)
            private_files.make_folder(path.parent, root)
        data = orjson.dumps(asdict(ticket))
        parquet.write_atomically(path, data, durable=False, owner_only=True)


def find(root: Path, service: str, identity: str, job_id: str) -> Ticket | None:
    """Return the ticket of a job started here; None where there is no sound one."""
    path = _path(root, service, identity, job_id)
    try:
        told = orjson.loads(path.read_bytes())
        ticket = Ticket(**{**told, "shown": tuple(told["shown"])})
        known = set(schemas.SCHEMAS[ticket.op].names)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("ignored a damaged ticket, %s: %s", path, error)
        return None
    return ticket if ticket.job_id == job_id and known.issuperset(ticket.shown) else None


def sweep(root: Path) -> None:
    """Remove the tickets of jobs that no service remembers any more."""
    for path in (root / _FOLDER).glob("*.json"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink()


def _path(root: Path, service: str, identity: str, job_id: str) -> Path:
    named = hashlib.sha256(orjson.dumps([service, identity, job_id])).hexdigest()[:32]
    return root / _FOLDER / f"{named}.json"
