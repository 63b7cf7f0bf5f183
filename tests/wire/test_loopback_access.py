"""Access to the loopback API by web pages in the user's browser and by other users."""

from __future__ import annotations

import httpx

from webdata_nb.contract import paths
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local

STRANGERS: list[dict[str, str]] = [
    {"Host": "evil.test"},
    {"Host": "127.0.0.1.evil.test"},
    {"Host": "localhost.evil.test"},
    {"Host": "evil.test:80"},
    {"Host": "127.0.0.1@evil.test"},
    {"Host": "[::ffff:192.0.2.1]"},
    {"Host": "0.0.0.0"},
    {"Host": "169.254.169.254"},
    {"Origin": "http://evil.test"},
    {"Origin": "https://evil.test"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost.evil.test"},
    {"Origin": "file://"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/x-www-form-urlencoded"},
    {"Content-Type": "multipart/form-data; boundary=x"},
]


async def test_no_web_page_can_use_it_even_with_the_token(local_settings: Settings) -> None:
    service = await local.ensure(local_settings)
    bearer = {"Authorization": f"Bearer {service.token}"}
    async with httpx.AsyncClient(base_url=service.base_url, trust_env=False) as client:
        for stranger in STRANGERS:
            headers = {"Content-Type": "application/json"} | bearer | stranger
            answer = await client.post(paths.LOCAL_STOP, content=b"{}", headers=headers)
            assert answer.status_code in {400, 403, 415}, stranger
            assert "access-control-allow-origin" not in answer.headers
    await service.close()


OPENINGS = [
    {},
    {b"Authorization": b"Bearer"},
    {b"Authorization": b"Bearer x"},
    {b"Authorization": b"Basic x"},
    {b"Authorization": b"bearer \xc3\xa9"},
]


async def test_nothing_but_health_answers_without_the_token(local_settings: Settings) -> None:
    service = await local.ensure(local_settings)
    async with httpx.AsyncClient(base_url=service.base_url, trust_env=False) as client:
        for path in (paths.LOCAL_HELLO, paths.JOBS, "/", "/nothing"):
            for headers in OPENINGS:
                answer = await client.get(path, headers=headers)
                assert answer.status_code == 401, (path, headers)
        assert (await client.get(paths.HEALTH)).status_code == 200
    await service.close()
