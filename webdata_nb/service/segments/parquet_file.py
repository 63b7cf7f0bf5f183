"""Encodes contents of one account as a Parquet file, and decodes it."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.errors import ApplicationError

if TYPE_CHECKING:
    import pyarrow as pa

# ruff: noqa: PLC0415 - pyarrow takes 50 MB: a service without segments does not load it

ID_BYTES: Final = 16
FOLDER: Final = "segments"
_HASH_BYTES: Final = 16
_LEVEL: Final = 3
# A data page is compressed as a whole, and pages of one site have much in common.
_DATA_PAGE_BYTES: Final = 64 * 1024 * 1024
_MOVE: Final = b"webdata_move"


class InvalidSegment(ApplicationError):
    """A file is no segment, or is not the one of its name."""


def encode_segment(bodies: Sequence[tuple[bytes, bytes]], move: str) -> bytes:
    """Return a Parquet file with the columns `id` and `body`.

    The same arguments give the same bytes.

    Parameters
    ----------
    bodies
        Ids of 16 bytes with their contents, in the order of the rows.
    move
        The id of the move that writes the file. It makes the name of each file unique: a file that
        a sweep deletes is not written again by another move.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = b"".join(each for each, _ in bodies)
    offsets = array("i", [0])
    for _, body in bodies:
        offsets.append(offsets[-1] + len(body))
    content = b"".join(body for _, body in bodies)
    # Arrays of buffers: `pa.array` would import pandas.
    columns: list[pa.Array[Any]] = [
        pa.Array.from_buffers(pa.binary(ID_BYTES), len(bodies), [None, pa.py_buffer(ids)]),
        pa.Array.from_buffers(
            pa.binary(), len(bodies), [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        ),
    ]
    fields: list[pa.Field[Any]] = [
        pa.field("id", pa.binary(ID_BYTES)),
        pa.field("body", pa.binary()),
    ]
    schema = pa.schema(fields, metadata={_MOVE: move.encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(columns, schema=schema),
        sink,
        compression="zstd",
        compression_level=_LEVEL,
        data_page_size=_DATA_PAGE_BYTES,
        row_group_size=max(1, len(bodies)),
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    return sink.getvalue().to_pybytes()


def decode_segment(name: str, data: bytes) -> Mapping[bytes, bytes]:
    """Return the contents of a file by their ids; raises `InvalidSegment`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not name.endswith(f"/{_hash(data)}"):
        raise InvalidSegment("its checksum is wrong")
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            table = file.read(columns=["id", "body"], use_threads=False)
        ids, bodies = table.column("id").to_pylist(), table.column("body").to_pylist()
    except (pa.ArrowException, KeyError, OSError) as error:
        raise InvalidSegment(f"it is no segment: {type(error).__name__}") from error
    pairs = zip(ids, bodies, strict=True)
    return {each: body for each, body in pairs if each is not None and body is not None}


def segment_name(store_id: str, account_id: str, data: bytes) -> str:
    """Return the name of a file of an account, made from its bytes."""
    return f"{account_folder(store_id, account_id)}/{_hash(data)}"


def account_folder(store_id: str, account_id: str) -> str:
    """Return the folder of the files of an account in one store."""
    # An account id may contain characters that a file name must not.
    return f"{store_folder(store_id)}/{hashlib.sha256(account_id.encode()).hexdigest()[:32]}"


def store_folder(store_id: str) -> str:
    """Return the folder of the files of one store."""
    return f"{FOLDER}/{store_id}"


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_HASH_BYTES).hexdigest()
