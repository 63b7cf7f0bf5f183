"""Converts the named statements and the schema to PostgreSQL and to psycopg's placeholders."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from webdata_nb.service.store.sql.named_statements import schema, statements

DIALECT: Final = "postgresql"
_PLACEHOLDER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")
# Arrays are sent in PostgreSQL's binary format: as text, a page takes four times the bytes.
_ARRAY: Final = re.compile(r"(?<![:\w]):([a-z_]+)(::\w+\[\])")
_COMMENT: Final = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_TYPE: Final = re.compile(r"\b(BLOB|TEXT)\b(?!\[)")
# Texts are ordered by their bytes, as in SQLite, whatever the language of the database.
_TYPES: Final = {"BLOB": "BYTEA", "TEXT": 'TEXT COLLATE "C"'}


@cache
def postgres_statements() -> dict[str, str]:
    """Return every statement by its name, with placeholders such as `%(job_id)s`."""
    return {name: with_placeholders(text) for name, text in statements(DIALECT).items()}


def postgres_schema() -> str:
    """Return the script that creates the tables in an empty schema."""
    return _TYPE.sub(lambda match: _TYPES[match[1]], schema(DIALECT))


def with_placeholders(statement: str) -> str:
    r"""Return a statement for psycopg.

    Examples
    --------
    >>> with_placeholders("SELECT 1 WHERE a LIKE '%' || :word")
    "SELECT 1 WHERE a LIKE '%%' || %(word)s"
    >>> with_placeholders("SELECT unnest(:urls::text[])")
    'SELECT unnest(%(urls)b::text[])'
    """
    code = _COMMENT.sub("", statement)  # comments name placeholders too
    code = _ARRAY.sub(r"%(\1)b\2", code.replace("%", "%%"))
    return _PLACEHOLDER.sub(r"%(\1)s", code)
