"""Derives file names that are safe on every file system from untrusted text."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from webdata_nb.service.store.records import JobRecord

_MAX_SLUG_LENGTH: Final = 60


def slug(text: str) -> str:
    """Return up to 60 lower-case ASCII letters, digits and single dashes of a text."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_MAX_SLUG_LENGTH].strip("-")


def result_folder(number: int, url: str) -> str:
    """Return the folder of one result; its number makes it unique and avoids reserved names."""
    try:
        parts = urlsplit(url)
    except ValueError:
        page = ""
    else:
        page = f"{parts.netloc.rpartition('@')[2]} {parts.path}"
    return f"results/{number:04d}-{slug(page)}".rstrip("-")


def export_file_name(job: JobRecord, suffix: str) -> str:
    """Return the file name of an export."""
    subject = job.subject if job.kind == "search" else job.subject.partition("://")[2]
    words = [job.kind, slug(subject), slug(job.id)[:8]]
    return f"{'-'.join(word for word in words if word)}.{suffix}"
