"""Names that every file system takes, made from text that anyone may have written."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from webdata_nb.service.store.records import JobRecord

_LENGTH: Final = 60


def slug(text: str) -> str:
    """Return lower-case ASCII letters, digits and single dashes, at most 60; "" where none is."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LENGTH].strip("-")


def folder(number: int, url: str) -> str:
    """Return the folder of one result: its number makes it unique, and no reserved name."""
    return f"results/{number:04d}-{slug(_place(url))}".rstrip("-")


def file_name(job: JobRecord, suffix: str) -> str:
    """Return the name that an export is saved under."""
    subject = job.subject if job.kind == "search" else job.subject.partition("://")[2]
    words = [job.kind, slug(subject), slug(job.id)[:8]]
    return f"{'-'.join(word for word in words if word)}.{suffix}"


def _place(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.netloc.rpartition('@')[2]} {parts.path}"
