"""Documentation that others wrote: headings, code and navigation of a sample of its pages.

`python -m benchmarks.documentation_sites` checks all pages.
"""

from __future__ import annotations

import pytest

from benchmarks.documentation_sites import SITES, check_site
from tests.requirements import require

EVERY = 12
"""One of so many pages is checked."""


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_pages_keep_heading_and_code_and_begin_without_navigation(site: str) -> None:
    checked = check_site(require(f"{site}-docs"), EVERY)
    assert checked.pages > 15
    assert checked.misses == {}
