"""A class name occurs once in the package, so that a search for it finds one class."""

from __future__ import annotations

from benchmarks.structure import CHECKOUT, duplicate_classes


def test_every_class_name_occurs_once() -> None:
    assert duplicate_classes(CHECKOUT) == {}
