"""What is shown of the difference of two texts."""

from __future__ import annotations

import pytest

from webdata_nb.toolkit.frames.compare import changed_lines


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a\nb\nc", "a\nc\nd", "- b\n+ d"),
        ("a\nb", "b\na", "the same lines in another order"),
        ("a", "a\n\n  a", "+ a"),
        ('[\n"x",\n"y"\n]', '[\n"x",\n"y",\n"z"\n]', '+ "z"'),
        ("", "new", "+ new"),
    ],
)
def test_lines_of_one_text(old: str, new: str, shown: str) -> None:
    assert changed_lines(old, new) == shown


def test_long_lines_show_the_part_that_differs() -> None:
    words = "word " * 200
    shown = changed_lines(f"{words}29{words}", f"{words}24{words}")
    old, new = shown.splitlines()
    assert old.startswith("- …")
    assert "29" in old
    assert "24" in new
    assert max(len(old), len(new)) < 200


@pytest.mark.parametrize("line", ["x", "y" * 1000, "\U0001f600" * 500])
def test_the_whole_is_short(line: str) -> None:
    old, new = (f"{line}{n}\n" * 5000 for n in range(2))
    assert len(changed_lines(old, new)) <= 2000
    assert len(changed_lines("".join(f"{line}{n}\n" for n in range(9000)), "")) <= 2000
