"""Markdown freed of the traces of empty elements, its code untouched."""

from __future__ import annotations

import pytest

from webdata_nb.service.markdown.postprocess import tidy


@pytest.mark.parametrize(
    ("written", "tidied"),
    [
        ("- \n\n  a\n- b", "- \n  a\n- b"),
        ("1. \n\n   a\n2. \n3. b \n\nc", "1. \n   a\n3. b \n\nc"),
        ("# \n\nx \n\n\n\ny", "x \n\ny"),
        ("x\n\n- \n\ny", "x\n\ny"),
        ("a - \n\nb", "a - \n\nb"),
        ("```\n- \n\n  a\n\n\n\nb\n```\n\n\n\n- \n\nc", "```\n- \n\n  a\n\n\n\nb\n```\n\nc"),
        ("````\n```\n- \n\n  a\n````\n\n- \n\nz", "````\n```\n- \n\n  a\n````\n\nz"),
        ("> ```\n> - \n\n- \n\n  q", "> ```\n> - \n\n- \n  q"),
        ("a&#160;\n\n&#160;\n\nb &#160; &#160;  \nc&#8239;", "a\n\nb  \nc"),
        ("- &#160;\n- b&#160;\n\n## &#160;\n\nc", "- b\n\nc"),
        ("&#160;2. x\n> &#160;y", "\xa02. x\n> \xa0y"),
        (
            "a \\&#160;\n\n`&#160;`\n\n```\n&#160;\n```",
            "a \\&#160;\n\n`&#160;`\n\n```\n&#160;\n```",
        ),
        ("`" + "&#160;" * 50_000 + "` x", "`" + "&#160;" * 50_000 + "` x"),
        ("a" + "\xa0" * 50_000 + "b &#38;", "a" + "\xa0" * 50_000 + "b &#38;"),
        ("a&#160;b &#160;c **d&#160;** e", "a\xa0b \xa0c **d** e"),
        ("a*&#160;b*&#8239;c", "a*&#160;b*&#8239;c"),
        ("a `&#160;` b&#160;c", "a `&#160;` b&#160;c"),
        ("x\n\n- \n- \n- a\n  \n  b\n\n- ", "x\n\n- a\n\n  b"),
        ("x\n\n\n\ny\n\n###", "x\n\ny"),
        ("- \n  - \n    - \n\nx", "x"),
        ("- a\n- \n\n\ny", "- a\n\ny"),
        ("x\n\na\n \n\n\ny", "x\n\na\n\ny"),
        ("- \n  - \n\n  - a\n\n\n- b", "- \n  - a\n\n- b"),
        ("- a\n\n- \n\n  ```\n  x\n  ```", "- a\n\n- \n  ```\n  x\n  ```"),
        ("", ""),
    ],
)
def test_traces_go_and_code_stays(written: str, tidied: str) -> None:
    assert tidy(written) == tidied
