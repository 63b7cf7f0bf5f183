"""The references of the documentation site are complete, and its pictures are those of today."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from PIL import Image

import webdata_nb
from benchmarks.floors import read_floors
from docs.website import diagrams, http_reference, python_reference
from webdata_nb.service.routes.application import openapi

CHECKOUT: Final = Path(__file__).resolve().parent.parent


def test_python_reference_documents_every_public_name_once() -> None:
    names = [name for topic in python_reference.TOPICS.values() for name in topic.names]
    assert len(names) == len(set(names))
    assert {*names, *python_reference.async_names(), "__version__"} == set(webdata_nb.__all__)


def test_http_reference_documents_every_operation_and_object() -> None:
    document, page = openapi(), http_reference.page()
    operations = [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]
    assert len(operations) > 20
    assert [each for each in operations if f"\n`{' '.join(each)}`\n" not in page] == []
    objects = [name for name, s in document["components"]["schemas"].items() if "properties" in s]
    assert [name for name in objects if f"### {name} " not in page] == []
    assert len(re.findall(r"^curl ", page, re.MULTILINE)) == len(operations)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture_shows_the_current_diagram(theme: str) -> None:
    picture = CHECKOUT / "docs" / "pictures" / f"architecture-{theme}.png"
    with Image.open(picture) as image:
        digest = image.info[diagrams.DIGEST_KEY]
    hint = "run `python -m docs.website.pictures --only architecture`"
    assert digest == diagrams.digest(diagrams.architecture_diagram()), hint


def test_animation_begins_with_the_result_of_a_crawl() -> None:
    with Image.open(CHECKOUT / "docs" / "pictures" / "crawl.gif") as image:
        extents = []
        for number in (0, 1):
            image.seek(number)
            gray = image.convert("L")
            dark = gray.point(lambda value: 255 * (value < 128)).getbbox()
            extents.append(dark[3] / image.height if dark else 0.0)
    # The table fills the notebook, which is nearly empty before the call.
    assert extents[0] > 0.7
    assert extents[1] < 0.4


@pytest.mark.slow
def test_http_reference_is_deterministic() -> None:
    code = "from docs.website import http_reference; print(http_reference.page(), end='')"
    pages = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=CHECKOUT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert pages[0] == pages[1]


def test_curl_commands_are_valid() -> None:
    blocks = re.findall(r"```sh\n(curl .*?)\n```", http_reference.page(), re.DOTALL)
    bodies = 0
    for command in blocks:
        words = shlex.split(command.replace("\\\n", " "))
        addresses = [word for word in words if word.startswith("$WEBDATA_BASE_URL/")]
        assert len(addresses) == 1, command
        assert not re.search(r"[{}]", addresses[0]), command
        if "-d" in words:
            assert isinstance(json.loads(words[words.index("-d") + 1]), dict)
            bodies += 1
    assert bodies >= 4


def test_comparison_states_the_floors_of_the_benchmarks() -> None:
    page = (CHECKOUT / "docs" / "comparison.md").read_text("utf-8")
    floors = read_floors()
    compared = [
        f"{floor} times"
        for name, floor in floors.items()
        if re.match("crawl_vs_peers: (?!memory|time)|main_content|cached_call|reply_to_frame", name)
    ]
    assert sorted(re.findall(r"\| (at (?:least|most) [\d.]+ times) \|", page)) == sorted(compared)
    assert f"{floors['crawl_vs_peers: memory in MB'].value:g} MB" in page
