"""Runs crawls of several sites that hand links over to each other: `spread=True`.

The service starts all crawls together. The rows of each site are read as those of a long crawl,
into files of a folder of its own: a call that is repeated finds the crawls by the manifest of the
whole, and reads the rows that no file has yet.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from webdata_nb.cache.result_cache import ResultCache
from webdata_nb.calls import budget, multi_input
from webdata_nb.calls.executor import InputResult
from webdata_nb.calls.long_crawl import (
    LongCrawl,
    columns_without_content,
    is_long,
    manifest_of_call,
    require_out,
    write_new_manifest,
)
from webdata_nb.contract import limits, paths
from webdata_nb.contract.replies import SiteCrawlStart
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.errors import (
    InvalidArgument,
    NotFound,
    NotSupported,
    OfflineError,
    WebdataError,
)
from webdata_nb.frames.crawl_parts import CrawlManifest, CrawlParts
from webdata_nb.frames.dataset_folder import folder_errors
from webdata_nb.requests import arguments
from webdata_nb.requests.call_options import CallOptions, FanOutOptions, within
from webdata_nb.requests.inputs import Input, request_values
from webdata_nb.requests.job_spec import JobSpec
from webdata_nb.requests.options import CrawlDfOptions, CrawlOptions
from webdata_nb.suggestions import format_value

if TYPE_CHECKING:
    import pandas as pd

_SITE: Final = "site-{:03}"
_LIST: Final = "spread=True needs a list of 2 to {} sites as url"


async def run(
    urls: str | Sequence[str], options: CrawlDfOptions, *, stream: bool, lazy: bool
) -> pd.DataFrame:
    """Run the crawls of several sites, or continue them, and return their rows as one frame.

    Raises
    ------
    InvalidArgument
        An argument is not allowed, or `out` has the rows of another call; nothing was sent.
    NotSupported
        The service hands no links over; nothing was started.
    """
    specs = _checked(urls, options, stream=stream, lazy=lazy)
    out = _out_folder(options)
    fan_out = FanOutOptions.check(options)
    call = replace(CallOptions.check_without_out(options), cache=False)
    await budget.check(specs, call, fan_out.budget)
    async with _folder(out) as folder:
        # Without files that stay, the frame has all columns.
        columns = specs[0].columns if out is None else tuple(columns_without_content(specs[0]))
        sites = _SiteCrawlCall(specs, replace(call, refresh=False), folder, columns)
        inputs = [
            Input({"start_url": spec.subject}, replace(spec, columns=columns)) for spec in specs
        ]
        try:
            await sites.prepare(refresh=call.refresh)
            return await multi_input.run(inputs, sites.options, fan_out, runner=sites.run)
        except asyncio.CancelledError:
            sites.is_interrupted = True
            raise
        finally:
            if sites.is_interrupted:
                await sites.cancel()


def _checked(
    urls: str | Sequence[str], options: CrawlDfOptions, *, stream: bool, lazy: bool
) -> list[JobSpec]:
    """Return the request of each site."""
    executor, partition = options["executor"], options["partition"]
    without_effect = {"stream": stream, "lazy": lazy, "executor": executor, "partition": partition}
    if unused := [name for name, value in without_effect.items() if value]:
        raise InvalidArgument(f"{unused[0]} has no effect with spread=True: leave it out")
    if options["check_links"]:
        raise InvalidArgument(
            "check_links cannot be combined with spread=True, which crawls the linked sites: leave "
            "one of them out"
        )
    items = arguments.list_items("url", urls)
    low, high = limits.SITES
    if items is None or not low <= len(items) <= high:
        received = format_value(urls) if items is None else f"a list of {len(items)}"
        raise InvalidArgument(f"{_LIST.format(high)}; it is {received}")
    specs = [_spec_of(url, f"site {n} of {len(items)}", options) for n, url in enumerate(items, 1)]
    _refuse_repeated_sites(specs)
    return specs


def _spec_of(url: str, name: str, options: CrawlDfOptions) -> JobSpec:
    make = JobSpec.long_crawl if is_long(options) else JobSpec.crawl
    try:
        return make(url, **request_values(options, CrawlOptions))
    except InvalidArgument as error:
        if str(error).startswith("url "):
            raise InvalidArgument(f"{name}: {error}") from None
        raise


def _refuse_repeated_sites(specs: Sequence[JobSpec]) -> None:
    first_by_site: dict[tuple[str, int | None], str] = {}
    for spec in specs:
        parts = urlsplit(_url_of(spec))
        port = None if parts.port in {80, 443} else parts.port
        site = (parts.hostname or "").removeprefix("www."), port
        if site in first_by_site:
            raise InvalidArgument(
                f"{first_by_site[site]} and {spec.subject} are of one site: with spread=True each "
                "site is in the list once"
            )
        first_by_site[site] = spec.subject


def _url_of(spec: JobSpec) -> str:
    assert isinstance(spec.request, CrawlRequest)  # noqa: S101 - built here
    return spec.request.url


def _out_folder(options: CrawlDfOptions) -> Path | str | None:
    if is_long(options):
        require_out(options)
    return arguments.check_dataset_path(options["out"], "spread=True")


@asynccontextmanager
async def _folder(out: Path | str | None) -> AsyncIterator[Path | str]:
    """Return the folder of the files; a temporary one where none is wanted."""
    if out is not None:
        yield out
        return
    temporary = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="webdata-"))
    try:
        yield temporary
    finally:
        await asyncio.to_thread(shutil.rmtree, temporary, ignore_errors=True)


@dataclass(slots=True)
class _Site:
    """The request of one site, its cache key and its files."""

    spec: JobSpec
    cache: ResultCache
    parts: CrawlParts
    out: str


class _SiteCrawlCall:
    """One call: the crawls of its sites, and the manifest of the whole."""

    def __init__(
        self,
        specs: Sequence[JobSpec],
        options: CallOptions,
        folder: Path | str,
        columns: Sequence[str],
    ) -> None:
        self.options, self.is_interrupted = options, False
        self._folder, self._columns = folder, columns
        self._whole = CrawlParts(folder)
        self._site_crawl_id = ""
        self._sites: dict[str, _Site] = {}
        for number, spec in enumerate(specs):
            out = f"{str(folder).rstrip('/')}/{_SITE.format(number)}"
            cache = ResultCache.of_spec(spec, options)
            self._sites[_url_of(spec)] = _Site(spec, cache, CrawlParts(out), out)

    async def prepare(self, *, refresh: bool) -> None:
        """Start the crawls, unless the folder has them."""
        with folder_errors(self._folder):
            manifest = await asyncio.to_thread(self._manifest, refresh=refresh)
        if manifest.job_id is None:
            await self._start(manifest)
        else:
            self._site_crawl_id = manifest.job_id

    async def run(self, spec: JobSpec, options: CallOptions) -> InputResult:
        """Return the rows of one site; the `InputRunner` of the call."""
        site = self._sites[_url_of(spec)]
        crawl = LongCrawl(
            site.spec, options, site.cache, site.parts, site.out, columns=self._columns
        )
        try:
            return multi_input.result_or_error(await crawl.result())
        except WebdataError as error:
            return error
        except asyncio.CancelledError:
            self.is_interrupted = True
            raise

    async def cancel(self) -> None:
        """Cancel the crawls at the service, also those whose rows are not read yet."""
        if not self._site_crawl_id:
            return
        async with self.options.connection.client(self.options.settings) as client:
            await client.cancel_site_crawl_quietly(self._site_crawl_id)

    def _manifest(self, *, refresh: bool) -> CrawlManifest:
        """Return the manifest of the whole; write it where there is none."""
        digest = " ".join(site.cache.key.digest for site in self._sites.values())
        folders = [self._whole, *(site.parts for site in self._sites.values())]
        manifest = manifest_of_call(folders, digest, self._folder)
        is_started = manifest is not None and manifest.job_id is not None
        if self.options.settings.offline and (refresh or not is_started):
            raise OfflineError(f"offline, and there are no crawls in {self._folder}")
        if manifest is not None and not refresh:
            return manifest
        return write_new_manifest(folders, digest)

    async def _start(self, manifest: CrawlManifest) -> None:
        options = self.options
        async with options.connection.client(options.settings) as client:
            starting = client.start_site_crawl(
                self._body(), idempotency_key=manifest.idempotency_key
            )
            try:
                reply = await within(options.timeout_s, starting)
            except (NotFound, NotSupported) as error:
                await asyncio.to_thread(self._whole.clear)
                raise NotSupported(
                    f"the service at {client.base_url} offers no crawls that hand links over "
                    f"(POST {paths.SITE_CRAWLS}); nothing was started",
                    status=error.status,
                ) from None
        # At once: an interrupted call cancels the crawls.
        self._site_crawl_id = reply.site_crawl_id
        await asyncio.to_thread(self._write_started, manifest, reply)

    def _body(self) -> Mapping[str, object]:
        first = next(iter(self._sites.values())).spec.body
        options = {name: value for name, value in first.items() if name != "url"}
        return {"urls": list(self._sites), **options}

    def _write_started(self, manifest: CrawlManifest, reply: SiteCrawlStart) -> None:
        """Write the jobs into the manifests of the sites, and then into that of the whole."""
        for site, job in zip(self._sites.values(), reply.jobs, strict=True):
            digest = site.cache.key.digest
            site.parts.write_manifest(
                CrawlManifest(digest, manifest.idempotency_key, job_id=job.job_id)
            )
        self._whole.write_manifest(replace(manifest, job_id=reply.site_crawl_id))
