"""Creatives to the last one: through faults, interruptions, and against the answer before."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from starlette.responses import JSONResponse, Response

from tests.wire_service import WireService, creative_rows
from webdata_nb.contract import paths
from webdata_nb.errors import IncompleteResult, InvalidArgument, OfflineError
from webdata_nb.toolkit.api import advertisers_df, creatives_df, gallery

pytestmark = pytest.mark.usefixtures("connected")
PAGES = 25


class Faults:
    """Answers some creatives calls its own way, each once."""

    def __init__(self, service: WireService, answers: dict[int, Callable[[], Response]]) -> None:
        self._answers = answers
        self.calls = 0
        service.fault = self._fault

    def _fault(self, path: str, _query: dict[str, str]) -> Response | None:
        if path != paths.CREATIVES:
            return None
        self.calls += 1
        answer = self._answers.pop(self.calls, None)
        return None if answer is None else answer()


def busy() -> Response:
    return JSONResponse({"detail": "slow down"}, 429, {"Retry-After": "0"})


def expired() -> Response:
    problem = {"loc": ["body", "cursor"], "msg": "this cursor has expired", "type": "value_error"}
    return JSONResponse({"detail": [problem]}, 422)


def page(rows: list[Any], cursor: str) -> Response:
    reply = {"advertiser_id": "AR1", "creatives": rows, "cursor": cursor}
    return JSONResponse({"success": True, "total_results": len(rows), **reply})


def test_a_thousand_creatives_through_every_fault(service: WireService) -> None:
    rows = creative_rows(1000)
    rows[333] = {
        "position": 334,
        "advertiser_id": "AR1",
        "creative_id": "",
        "error": "the source's row could not be read (KeyError)",
    }
    service.creatives = rows
    faults = Faults(
        service,
        {
            3: busy,
            9: expired,
            # Page 2 of the second beginning comes with the cursor that led to it.
            15: lambda: page(rows[160:200], "160"),
        },
    )
    df = creatives_df("AR1")
    assert df["position"].tolist() == list(range(1, 1001))
    assert df["creative_id"].nunique() == 1000
    broken = df[df["error"].notna()]
    assert broken["position"].tolist() == [334]
    assert "could not be read" in broken["error"].iloc[0]
    assert faults.calls > PAGES
    assert df.attrs["webdata"]["counts"] == {
        "rows": 1000,
        "total": 1000,
        "ok": 999,
        "failed": 1,
    }


def test_a_source_that_only_goes_in_circles_gives_up_with_what_there_is(
    service: WireService,
) -> None:
    service.creatives_cursor = "0"
    with pytest.raises(IncompleteResult, match="repeats") as raised:
        creatives_df("AR1")
    assert len(raised.value.frame) == 5


def test_ever_new_cursors_over_the_same_rows_end_too(service: WireService) -> None:
    numbers = iter(range(10_000))
    rows = creative_rows(5)
    service.fault = lambda path, _query: (
        page(rows, f"c{next(numbers)}") if path == paths.CREATIVES else None
    )
    with pytest.raises(IncompleteResult, match="repeats its pages") as raised:
        creatives_df("AR1")
    assert len(raised.value.frame) == 5
    assert next(numbers) < 30


def test_only_the_wanted_rows_are_requested(service: WireService) -> None:
    service.creatives = creative_rows(100)
    assert len(creatives_df("AR1", max_rows=2, skip_details=False)) == 2
    assert len(creatives_df("AR1", max_rows=45)) == 45
    requested = [body.get("limit") for body in service.posted(paths.CREATIVES)]
    assert requested == [2, None, 5]


def test_a_cursor_that_is_always_refused_gives_up(service: WireService) -> None:
    service.creatives = creative_rows(100)
    cursors: list[Any] = []

    def fault(path: str, _query: dict[str, str]) -> Response | None:
        if path != paths.CREATIVES:
            return None
        cursors.append(service.requests[-1].body.get("cursor"))
        return expired() if cursors[-1] else None

    service.fault = fault
    with pytest.raises(IncompleteResult, match="expired") as raised:
        creatives_df("AR1")
    assert len(raised.value.frame) == 40
    assert cursors == [None, "40"] * 3


def test_a_broken_run_goes_on_at_its_cursor(service: WireService) -> None:
    service.creatives = creative_rows(200)
    Faults(service, {4: lambda: JSONResponse({"detail": "gone"}, 403)})
    with pytest.raises(IncompleteResult) as raised:
        creatives_df("AR1")
    assert len(raised.value.frame) == 120
    before = len(service.posted(paths.CREATIVES))
    df = creatives_df("AR1")
    assert df["position"].tolist() == list(range(1, 201))
    cursors = [body.get("cursor") for body in service.posted(paths.CREATIVES)[before:]]
    assert cursors == ["120", "160"]
    creatives_df("AR1", refresh=True)
    assert service.posted(paths.CREATIVES)[before + 2].get("cursor") is None


def test_a_run_without_the_cache_leaves_nothing_behind(service: WireService, cached: Path) -> None:
    service.creatives = creative_rows(80)
    Faults(service, {2: lambda: JSONResponse({"detail": "gone"}, 403)})
    with pytest.raises(IncompleteResult):
        creatives_df("AR1", cache=False)
    assert not [path for path in cached.rglob("*") if path.is_file()]


def test_only_new_is_against_the_answer_before(service: WireService) -> None:
    service.creatives = creative_rows(50)
    assert len(creatives_df("AR1", only_new=True)) == 50
    service.creatives = [*creative_rows(53)[50:], *creative_rows(50)]
    df = creatives_df("AR1", only_new=True)
    assert sorted(df["creative_id"]) == ["CR51", "CR52", "CR53"]
    assert df.attrs["webdata"]["known"] == 50
    assert len(creatives_df("AR1", only_new=True)) == 0
    assert len(creatives_df("AR1")) == 53
    with pytest.raises(OfflineError, match="only_new"):
        creatives_df("AR1", only_new=True, offline=True)
    with pytest.raises(InvalidArgument, match="only_new"):
        creatives_df("AR1", only_new="yes")  # type: ignore[call-overload]


def test_no_rows_say_what_was_asked(service: WireService) -> None:
    service.creatives = []
    with pytest.warns(UserWarning, match="region NO, all dates"):
        df = creatives_df("AR1", region="NO")
    assert len(df) == 0
    assert "region NO" in df.attrs["webdata"]["asked"]


def test_the_columns_follow_the_request(service: WireService) -> None:
    service.creatives = creative_rows(1)
    plain = set(creatives_df("AR1").columns)
    assert not plain & {"regions", "text", "assets", "preview", "headline"}
    assert {"regions", "headline"} <= set(creatives_df("AR1", skip_details=False).columns)
    assert {"text", "text_confidence", "headline"} <= set(creatives_df("AR1", ocr=True).columns)
    more = set(creatives_df("AR1", should_download_assets=True).columns)
    assert {"assets", "asset_urls"} <= more


def test_who_a_name_may_mean() -> None:
    found = advertisers_df("fulmar")
    assert found["advertiser_id"].tolist() == ["AR1", "AR2"]
    assert str(found["ads_max"].dtype) == "Int64"
    for wrong in ("", " ", 5):
        with pytest.raises(InvalidArgument, match="query"):
            advertisers_df(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="at most 50"):
        advertisers_df("x", limit=51)


def picture() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (600, 300), "red").save(out, "PNG")
    return out.getvalue()


def test_files_come_into_the_cache_and_into_the_gallery(service: WireService) -> None:
    data = picture()
    name = hashlib.sha256(data).hexdigest()
    service.files[name] = data
    rows: list[Any] = creative_rows(3)
    hostile = "<script>alert(1)</script>"
    rows[0] |= {"preview": {"url": "u", "sha256": name}, "advertiser_name": hostile}
    rows[1] |= {"preview": {"url": "https://remote.test/x.png", "sha256": "0" * 64}}
    rows[2] |= {"preview": {"url": "u", "sha256": "../../etc/passwd", "file": "/etc/passwd"}}
    service.creatives = rows
    df = creatives_df("AR1", should_download_previews=True)
    preview = Path(df["preview"][0]["file"])
    assert preview.read_bytes() == data
    assert "could not be downloaded" in df["preview"][1]["error"]
    markup = gallery(df)._repr_html_()
    assert markup.count("<img") == markup.count('src="data:image/png;base64,') == 1
    assert "remote.test" not in markup
    assert "<script" not in markup
    assert "&lt;script&gt;" in markup
    assert repr(gallery(df, max_cards=2)) == "Gallery of 2 creatives"
    assert "1 more are not shown" in gallery(df, max_cards=2)._repr_html_()


def test_a_file_that_is_not_what_was_told_is_not_kept(service: WireService) -> None:
    name = "1" * 64
    service.files[name] = picture()
    service.creatives = [{**creative_rows(1)[0], "preview": {"url": "u", "sha256": name}}]
    df = creatives_df("AR1", should_download_previews=True)
    assert "hash" in df["preview"][0]["error"]
    assert "file" not in df["preview"][0]


def test_a_gallery_is_of_creatives() -> None:
    with pytest.raises(InvalidArgument, match="creatives_df"):
        gallery(advertisers_df("x"))
