"""A job as the last expression of a cell: a live panel that no cell waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.notebooks.kernel import Cell, Kernel, started
from tests.wire_service import KEY, JobScript, WireService, crawl_rows

SITE: Final = "https://site.test/"
START: Final = f"job = s.crawl_job({SITE!r})"
WORDS: Final = "HTMLModel"


def panel(kernel: Kernel, code: str = f"{START}; job") -> Cell:
    """Run a cell that ends at once, and wait until its panel says how far the job is."""
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    kernel.until(lambda: says(cell, "running, 3/10 pages"))
    return cell


def says(cell: Cell, words: str) -> bool:
    return any(
        words in str(state.get("value", ""))
        for comm in cell.widgets(WORDS)
        for state in cell.updates.get(comm, [])
    )


def left(cell: Cell) -> str | None:
    """Return the line that a panel left behind; None as long as it is one."""
    [output] = cell.outputs
    data = output["data"]
    return str(data["text/plain"]) if sorted(data) == ["text/html", "text/plain"] else None


def test_it_moves_while_the_kernel_is_idle_and_leaves_a_line(
    kernel: Kernel, service: WireService
) -> None:
    cell = panel(kernel)
    assert left(cell) is None
    [bar] = cell.widgets("IntProgressModel")
    service.crawl.rows = crawl_rows(7)
    kernel.until(lambda: {"value": 7} in cell.updates[bar])
    service.crawl.total, service.crawl.running = 7, False
    kernel.until(lambda: left(cell) is not None and set(cell.closed) == set(cell.opened))
    assert (left(cell) or "").startswith(f"✓ crawl {SITE}: 7 rows; ")
    job_id = next(iter(service.jobs))
    assert job_id in cell.outputs[0]["data"]["text/html"]
    # Now that it has ended, a look at it is a line.
    again = kernel.run("job")
    assert again.opened == {}
    assert f"crawl {SITE}: 7 rows; " in again.outputs[0]["data"]["text/plain"]


@pytest.mark.parametrize("busy", [False, True])
def test_its_button_ends_the_job(kernel: Kernel, service: WireService, *, busy: bool) -> None:
    cell = panel(kernel)
    [button] = cell.widgets("ButtonModel")
    blocked = kernel.run("0")
    if busy:
        blocked = kernel.send("print('busy', flush=True)\njob.wait(progress=False)")
        kernel.until(lambda: blocked.text == "busy\n")
    kernel.click(button)
    kernel.until(lambda: (left(cell) or "").startswith("■ "))
    assert service.final_statuses() == ["cancelled"]
    kernel.until(lambda: blocked.ended)
    assert blocked.status == "ok"


def test_another_call_that_blocks_paints_it_too(kernel: Kernel, service: WireService) -> None:
    cell = panel(kernel)
    [bar] = cell.widgets("IntProgressModel")
    other = kernel.send("other = s.crawl_df('https://other.test/', progress=False, cache=False)")
    kernel.until(lambda: len(service.jobs) == 2)
    service.crawl.rows = crawl_rows(7)
    kernel.until(lambda: {"value": 7} in cell.updates[bar])
    assert not other.ended
    service.crawl.total, service.crawl.running = 7, False
    kernel.until(lambda: other.ended and left(cell) is not None)
    assert other.status == "ok", other.error


def test_shown_again_it_moves_there(kernel: Kernel, service: WireService) -> None:
    first = panel(kernel)
    second = panel(kernel, "import pickle; assert pickle.loads(pickle.dumps(job)).job_id; job")
    kernel.until(lambda: left(first) is not None)
    assert (left(first) or "").endswith("the job goes on")
    assert left(second) is None
    service.crawl.total, service.crawl.running = 3, False
    kernel.until(lambda: (left(second) or "").startswith("✓ "))


def test_a_service_that_is_gone_does_not_make_the_job_failed(
    kernel: Kernel, service: WireService
) -> None:
    cell = panel(kernel)
    service.jobs.clear()
    kernel.until(lambda: left(cell) is not None)
    assert (left(cell) or "").startswith("? ")


@pytest.mark.parametrize("setting", ["unattended", "False", "'log'"])
def test_unattended_it_is_a_line_that_sends_nothing(
    kernel: Kernel, service: WireService, setting: str
) -> None:
    kernel.run(START)
    before = len(service.requests)
    if setting == "unattended":
        cell = kernel.run("job", live=False)
    else:
        cell = kernel.run(f"webdata_nb.options.progress = {setting}\njob")
        kernel.run("webdata_nb.options.progress = None")
    assert cell.status == "ok", cell.error
    assert cell.opened == {}
    assert left(cell) is not None
    assert len(service.requests) == before
    kernel.run("job.cancel()")


@pytest.mark.slow
def test_the_kernel_ends_at_once_with_a_panel_in_it(running: WireService, tmp_path: Path) -> None:
    running.reset()
    running.crawl = JobScript(crawl_rows(3), total=10, running=True)
    with started(tmp_path) as own:
        own.run(f"s = webdata_nb.connect(base_url={running.url!r}, api_key={KEY!r})")
        panel(own)
        assert own.ends()
