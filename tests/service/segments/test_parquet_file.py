"""Segments as files: other programs read them, and a changed byte is noticed."""

from __future__ import annotations

import random
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.service.segments.parquet_file import (
    InvalidSegment,
    decode_segment,
    encode_segment,
    segment_name,
)

ACCOUNT = "team/Ünïcode ../x"


def id_of(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


def with_ids(bodies: list[bytes]) -> list[tuple[bytes, bytes]]:
    return [(id_of(body), body) for body in dict.fromkeys(bodies)]


@given(st.lists(st.binary(max_size=300), max_size=30))
def test_contents_are_returned_byte_for_byte(bodies: list[bytes]) -> None:
    contents = with_ids([*bodies, b"", b"\x00" * 100])
    data = encode_segment(contents, "move")
    assert decode_segment(segment_name("store", ACCOUNT, data), data) == dict(contents)
    assert encode_segment(contents, "move") == data
    assert encode_segment(contents, "other") != data


def test_other_programs_read_a_segment(tmp_path: Path) -> None:
    contents = with_ids([f"page {number}".encode() * 1000 for number in range(50)])
    path = tmp_path / "segment"
    path.write_bytes(encode_segment(contents, "move"))
    file = pq.ParquetFile(path)
    assert file.schema_arrow.names == ["id", "body"]
    assert file.metadata.row_group(0).column(1).compression == "ZSTD"
    rows = file.read().to_pylist()
    assert [(row["id"], row["body"]) for row in rows] == contents
    assert path.stat().st_size < sum(len(body) for _, body in contents) / 20


def test_names_stay_in_the_folder_of_store_and_account() -> None:
    one, two = (encode_segment(with_ids([body]), "move") for body in (b"1", b"2"))
    names = {segment_name("store", ACCOUNT, data) for data in (one, two)}
    names |= {segment_name("store", "bob", one), segment_name("other", "bob", one)}
    assert len(names) == 4
    assert len({name.rpartition("/")[0] for name in names}) == 3
    assert all(name.startswith(("segments/store/", "segments/other/")) for name in names)
    assert all(name.replace("/", "").isalnum() for name in names)


def test_every_changed_byte_is_noticed() -> None:
    contents = with_ids([b"first page", b"second page" * 50])
    data = encode_segment(contents, "move")
    name = segment_name("store", ACCOUNT, data)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= random.randrange(1, 256)
        with pytest.raises(InvalidSegment, match="checksum is wrong"):
            decode_segment(name, bytes(changed))
    for wrong in (b"", data[:-1], data + b"x", data[: len(data) // 2]):
        with pytest.raises(InvalidSegment):
            decode_segment(name, wrong)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1", b"text" * 99])
def test_file_that_is_no_segment_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidSegment, match="no segment"):
        decode_segment(segment_name("store", ACCOUNT, content), content)


def test_table_of_others_is_refused() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["x"]}), sink)
    data = sink.getvalue().to_pybytes()
    with pytest.raises(InvalidSegment, match="no segment"):
        decode_segment(segment_name("store", ACCOUNT, data), data)
