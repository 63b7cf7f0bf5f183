from __future__ import annotations

from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.site.process import SiteProcess


def test_a_recipe_is_served_by_a_child_that_ends_with_its_input() -> None:
    with SiteProcess("tests.site.process:tree") as site, urlopen(site.url) as answer:
        assert answer.url.endswith("/tree")
        assert b"/tree/9" in answer.read()
    with pytest.raises(URLError, match="refused"):
        urlopen(site.url)


def test_a_recipe_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="did not start"), SiteProcess("tests.site.process:no"):
        pass
