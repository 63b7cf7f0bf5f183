"""A live kernel, over its own protocol: what a cell shows, and the ways to end it early."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.notebooks.kernel import Cell, Kernel
from tests.wire_service import JobScript, WireService, crawl_rows

WIDGET: Final = "application/vnd.jupyter.widget-view+json"
SITE: Final = "https://site.test/"
CRAWL: Final = f"s.crawl_df({SITE!r}, cache=False)"
ENDED: Final = "JobCancelled: job "


def under_way(kernel: Kernel, service: WireService, code: str, jobs: int = 1) -> Cell:
    """Send a cell, and return when its jobs run and its button is there."""
    cell = kernel.send(code)
    kernel.until(
        lambda: (
            service.polled.is_set()
            and len(service.jobs) == jobs
            and bool(cell.outputs and cell.widgets("ButtonModel"))
        )
    )
    return cell


def click(kernel: Kernel, cell: Cell) -> None:
    [button] = cell.widgets("ButtonModel")
    kernel.click(button)


def last(cell: Cell) -> str:
    data: dict[str, Any] = cell.outputs[0]["data"]
    assert sorted(data) == ["text/html", "text/plain"]
    return str(data["text/plain"])


def test_the_panel_moves_and_leaves_plain_html_behind(kernel: Kernel, service: WireService) -> None:
    cell = under_way(kernel, service, CRAWL)
    assert WIDGET in cell.outputs[0]["data"]
    [bar] = cell.widgets("IntProgressModel")
    kernel.until(lambda: {"value": 3} in cell.updates.get(bar, []))
    assert {"max": 10} in cell.updates[bar]
    service.crawl.total, service.crawl.running = 3, False
    kernel.until(lambda: cell.ended)
    assert cell.status == "ok", cell.error
    # The receipt is once in the cell: below the frame.
    assert last(cell).startswith(f"✓ crawl {SITE}: 3/3 pages, ")
    texts = [str(output["data"]["text/html"]) for output in cell.outputs]
    assert [text.count(f"crawl {SITE}: 3 rows; ") for text in texts] == [0, 1]
    assert set(cell.closed) == set(cell.opened)


def test_a_frame_that_is_not_displayed_leaves_its_receipt_to_the_panel(
    kernel: Kernel, service: WireService
) -> None:
    service.crawl.total, service.crawl.running = 3, False
    cell = kernel.run(f"pages = {CRAWL}")
    assert last(cell).startswith(f"✓ crawl {SITE}: 3 rows; ")
    later = kernel.run("pages")
    [text] = [str(output["data"]["text/html"]) for output in later.outputs]
    assert text.count(f"crawl {SITE}: 3 rows; ") == 1
    assert last(cell).startswith(f"✓ crawl {SITE}: 3 rows; ")


def test_a_click_ends_the_job_while_its_cell_blocks(kernel: Kernel, service: WireService) -> None:
    cell = under_way(kernel, service, CRAWL)
    [bar] = cell.widgets("IntProgressModel")
    kernel.until(lambda: {"value": 3} in cell.updates.get(bar, []))
    click(kernel, cell)
    kernel.until(lambda: cell.ended)
    assert service.final_statuses() == ["cancelled"]
    assert cell.error is not None
    [line] = cell.error["traceback"]
    assert line.startswith(ENDED)
    assert last(cell).startswith(f"■ crawl {SITE}: 3/10 pages")
    assert set(cell.closed) == set(cell.opened)


def test_two_clicks_are_as_good_as_one(kernel: Kernel, service: WireService) -> None:
    cell = under_way(kernel, service, CRAWL)
    click(kernel, cell)
    click(kernel, cell)
    kernel.until(lambda: cell.ended)
    assert service.final_statuses() == ["cancelled"]
    assert kernel.run("1").status == "ok"


def test_a_click_can_leave_the_rows_so_far_and_the_queue_goes_on(
    kernel: Kernel, service: WireService
) -> None:
    cell = under_way(kernel, service, f"df = {CRAWL[:-1]}, on_cancel='partial')")
    after = kernel.send("print(len(df), df.attrs['webdata']['status'])")
    click(kernel, cell)
    kernel.until(lambda: after.ended)
    assert (cell.status, after.status) == ("ok", "ok")
    assert after.text == "3 cancelled\n"
    assert service.final_statuses() == ["cancelled"]
    assert last(cell).startswith("■ ")


def test_queued_cells_run_in_order_after_a_normal_end(kernel: Kernel, service: WireService) -> None:
    cell = under_way(kernel, service, f"order = ['crawl']; df = {CRAWL}")
    second = kernel.send("order.append('second')")
    third = kernel.send("order.append('third'); print(*order)")
    service.crawl.total, service.crawl.running = 3, False
    kernel.until(lambda: third.ended)
    assert [each.status for each in (cell, second, third)] == ["ok"] * 3
    assert third.text == "crawl second third\n"


def test_queued_cells_are_dropped_after_a_cancellation_as_after_any_error(
    kernel: Kernel, service: WireService
) -> None:
    cell = under_way(kernel, service, CRAWL)
    after = kernel.send("raise SystemError('must not run')")
    click(kernel, cell)
    kernel.until(lambda: after.status is not None)
    assert (cell.status, after.status) == ("error", "aborted")
    assert after.error is None
    assert kernel.run("print('alive')").text == "alive\n"


def test_stop_ends_the_job_in_one_line(kernel: Kernel, service: WireService) -> None:
    cell = under_way(kernel, service, CRAWL)
    kernel.interrupt()
    kernel.until(lambda: cell.ended)
    assert service.final_statuses() == ["cancelled"]
    assert cell.error is not None
    assert cell.error["ename"] == "KeyboardInterrupt"
    assert cell.error["traceback"] == ["KeyboardInterrupt: interrupted"]
    assert last(cell).startswith("■ ")
    assert kernel.run("print('alive')").text == "alive\n"


def test_stop_can_leave_the_rows_so_far(kernel: Kernel, service: WireService) -> None:
    cell = under_way(kernel, service, f"print(len({CRAWL[:-1]}, on_cancel='partial')))")
    kernel.interrupt()
    kernel.until(lambda: cell.ended)
    assert (cell.status, cell.text) == ("ok", "3\n")
    assert service.final_statuses() == ["cancelled"]


def test_a_click_ends_an_awaited_call(kernel: Kernel, service: WireService) -> None:
    cell = under_way(kernel, service, f"await s.acrawl_df({SITE!r}, cache=False)")
    click(kernel, cell)
    kernel.until(lambda: cell.ended)
    assert cell.error is not None
    assert cell.error["traceback"][0].startswith(ENDED)
    assert service.final_statuses() == ["cancelled"]
    # The cancellation was taken back: the cell's task is nobody else's business.
    assert kernel.run("import asyncio; await asyncio.sleep(0); print('alive')").text == "alive\n"


def test_several_inputs_have_one_panel_and_one_end(kernel: Kernel, service: WireService) -> None:
    code = f"s.crawl_df([{SITE!r}, 'https://other.test/'], cache=False)"
    cell = under_way(kernel, service, code, jobs=2)
    assert len(cell.outputs) == 1
    click(kernel, cell)
    kernel.until(lambda: cell.ended)
    assert service.final_statuses() == ["cancelled", "cancelled"]
    assert cell.error is not None
    assert cell.error["traceback"] == ["JobCancelled: the call was cancelled"]


def test_a_click_ends_a_stream_of_batches(kernel: Kernel, service: WireService) -> None:
    loop = f"for batch in s.crawl_df({SITE!r}, cache=False, stream=True): print(len(batch))"
    cell = under_way(kernel, service, loop)
    click(kernel, cell)
    kernel.until(lambda: cell.ended)
    assert service.final_statuses() == ["cancelled"]
    assert cell.error is not None
    assert cell.error["traceback"][0].startswith(ENDED), "\n".join(cell.error["traceback"])
    assert last(cell).startswith("■ ")


def test_a_click_ends_the_job_that_is_waited_for_and_stop_leaves_it(
    kernel: Kernel, service: WireService
) -> None:
    assert kernel.run(f"job = s.crawl_job({SITE!r})").status == "ok"
    cell = under_way(kernel, service, "job.wait()")
    kernel.interrupt()
    kernel.until(lambda: cell.ended)
    assert [job.status for job in service.jobs.values()] == ["running"]
    assert last(cell).endswith("the job goes on")
    cell = under_way(kernel, service, "print(job.wait())")
    click(kernel, cell)
    kernel.until(lambda: cell.ended)
    assert cell.text == "cancelled\n"
    assert service.final_statuses() == ["cancelled"]


INTERRUPT_AFTER_DISPLAY: Final = """
import IPython.core.display_functions as display_functions
publish = display_functions.publish_display_data
def publish_and_interrupt(*args, **kwargs):
    display_functions.publish_display_data = publish
    publish(*args, **kwargs)
    raise KeyboardInterrupt
display_functions.publish_display_data = publish_and_interrupt
"""


@pytest.mark.parametrize("progress", ["panel", "html"])
def test_an_interrupt_at_the_first_display_leaves_one_plain_output(
    kernel: Kernel, service: WireService, progress: str
) -> None:
    assert kernel.run(INTERRUPT_AFTER_DISPLAY).status == "ok"
    cell = kernel.run(f"s.crawl_df({SITE!r}, cache=False, progress={progress!r})")
    assert cell.error is not None
    assert len(cell.outputs) == 1
    assert last(cell).startswith("■ ")
    assert set(service.final_statuses()) <= {"cancelled"}


def test_without_anybody_to_click_there_are_no_widgets(
    kernel: Kernel, service: WireService
) -> None:
    service.crawl = JobScript(crawl_rows(3))
    cell = kernel.run(f"df = {CRAWL}", live=False)
    assert cell.opened == {}
    assert last(cell).startswith(f"✓ crawl {SITE}: 3 rows; ")


@pytest.mark.parametrize(
    ("want", "widgets", "outputs"), [("html", 0, 1), ("panel", 1, 1), ("off", 0, 0)]
)
def test_the_environment_chooses(
    kernel: Kernel, service: WireService, want: str, widgets: int, outputs: int
) -> None:
    service.crawl = JobScript(crawl_rows(3))
    cell = kernel.run(f"%env WEBDATA_PROGRESS={want}\ndf = {CRAWL}")
    kernel.run("%env -u WEBDATA_PROGRESS\nimport os; os.environ.pop('WEBDATA_PROGRESS', None)")
    assert cell.status == "ok", cell.error
    assert len(cell.widgets("ButtonModel")) == widgets
    assert len(cell.outputs) == outputs


STRESS: Final = """
import time
from ipywidgets import Button
from IPython import get_ipython
from webdata_nb.toolkit.display.bars import listen_for_clicks
button, hits = Button(), []
print(button.comm.comm_id, flush=True)
while len(hits) < 20:
    with listen_for_clicks(get_ipython().kernel, button, lambda: hits.append(1)) as pump:
        pump(); time.sleep(0.006); pump()
"""


def test_the_tap_loses_no_message(kernel: Kernel) -> None:
    cell = kernel.send(STRESS)
    kernel.until(lambda: cell.text.endswith("\n"))
    button, messages = cell.text.strip(), set()
    for number in range(60):
        messages.add(kernel.ask())
        if number % 3 == 0:
            kernel.click(button)

    def ended() -> bool:
        kernel.click(button)  # one that falls between two taps is for nobody
        return cell.ended

    kernel.until(ended)
    kernel.until(lambda: messages <= kernel.answered)
    assert cell.status == "ok", cell.error
