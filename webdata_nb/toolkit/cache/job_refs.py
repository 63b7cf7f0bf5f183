"""Remembers jobs that were started here, so that `job()` and later calls find them again.

A reference is a small JSON file beside the cached results. With it, a job that outlived its kernel
returns the frame that the starting call would have returned. The file holds no secrets: of the
request it keeps what a receipt shows, and a digest of the rest.
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

from webdata_nb.contract.states import JobKind
from webdata_nb.toolkit.cache.snapshots import CacheKey, prepare
from webdata_nb.toolkit.frames import parquet, private_files, schemas
from webdata_nb.toolkit.frames.schemas import TableName

_FOLDER: Final = Path("v1", "jobs")
_EXPIRES_S: Final = 30 * 86_400.0

log = logging.getLogger("webdata_nb")


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job: its request, the columns of its frame, and the cache file once it was collected."""

    job_id: str
    op: TableName
    subject: str
    digest: str
    columns: tuple[str, ...]
    request: dict[str, Any] = field(default_factory=dict)
    file: str | None = None

    @property
    def kind(self) -> JobKind:
        """The kind of the job."""
        return "search" if self.op == "search" else "crawl"

    @property
    def cache_key(self) -> CacheKey:
        """The key of its rows in the cache."""
        return CacheKey(self.op, self.digest)

    @classmethod
    def for_foreign_job(cls, job_id: str, op: TableName, service: str) -> JobRef:
        """Return a reference to a job that was started elsewhere; its frame has all columns."""
        key = CacheKey.of(op, base_url=service, identity="", params={"job_id": job_id})
        names = schemas.SCHEMAS[op].names
        # The columns of an audit are no data of the job.
        columns = tuple(name for name in names if name not in schemas.AUDIT_COLUMNS)
        return cls(job_id, op, "", key.digest, columns)


def write(root: Path, service: str, identity: str, job_ref: JobRef) -> None:
    """Write a reference; does nothing where the cache is not writable."""
    path = _path(root, service, identity, job_ref.job_id)
    with suppress(OSError):
        if not path.parent.is_dir():
            prepare(root)
            private_files.make_folder(path.parent, root)
        data = orjson.dumps(_to_json(job_ref))
        parquet.write_atomically(path, data, durable=False, owner_only=True)


def read(root: Path, service: str, identity: str, job_id: str) -> JobRef | None:
    """Return the reference to a job started here; None where it is missing or invalid."""
    path = _path(root, service, identity, job_id)
    try:
        fields = orjson.loads(path.read_bytes())
        columns = fields.pop("shown")
        ordered = schemas.in_order(fields["op"], columns)
        job_ref = JobRef(columns=ordered, **fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("ignored a damaged job reference, %s: %s", path, error)
        return None
    return job_ref if job_ref.job_id == job_id and len(ordered) == len(columns) else None


def _to_json(job_ref: JobRef) -> dict[str, Any]:
    """Return the fields of the file, which names the columns `shown`."""
    fields = asdict(job_ref)
    fields["shown"] = fields.pop("columns")
    return fields


def sweep(root: Path) -> None:
    """Remove references to jobs that no service keeps any more."""
    for path in (root / _FOLDER).glob("*.json"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _EXPIRES_S:
                path.unlink()


def _path(root: Path, service: str, identity: str, job_id: str) -> Path:
    name = hashlib.sha256(orjson.dumps([service, identity, job_id])).hexdigest()[:32]
    return root / _FOLDER / f"{name}.json"
