"""What the cache knows about one call: whether it was answered before, and the new answer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.errors import OfflineError
from webdata_nb.tables import snapshots
from webdata_nb.tables.snapshots import Question, Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

    from webdata_nb.functions.call import Call
    from webdata_nb.session import Scope
    from webdata_nb.tables.schemas import TableName

# The provider that searches the pages crawled here, and the mark that a crawl leaves for it.
_LOCAL_INDEX: Final = "local"
_CRAWLED: Final = "crawled"

_warned: Final[set[Path]] = set()


@dataclass(frozen=True, slots=True)
class Memory:
    """The cache, as one call sees it."""

    root: Path
    question: Question
    scope: Scope
    call: Call

    @classmethod
    def of(cls, op: TableName, scope: Scope, params: Mapping[str, Any], call: Call) -> Memory:
        """Return the memory of a call with these parameters, secret ones included."""
        question = Question.of(op, base_url=scope.service, identity=scope.identity, params=params)
        return cls(call.settings.cache_dir, question, scope, call)

    def find(self, shown: Sequence[str]) -> Snapshot | None:
        """Return the earlier answer that may stand for this call, in the columns `shown`.

        Raises
        ------
        OfflineError
            There is none, and asking is not allowed.
        """
        found = None
        if self.call.cache and not self.call.refresh:
            ttl_s = self.call.ttl_s(self.question.op)
            now = datetime.now(UTC)
            found = snapshots.newest(self.root, self.question, now=now, ttl_s=ttl_s, columns=shown)
        if found is None and self.call.settings.offline:
            raise OfflineError(self._why_offline())
        return None if found is None or self._outdated(found) else found

    def _why_offline(self) -> str:
        mode = "offline mode is on (offline=, WEBDATA_OFFLINE)"
        if not self.call.cache or self.call.refresh:
            return f"{mode}, and cache=False or refresh=True rule the cache out"
        return f"{mode}, and the cache has no answer for this call: run it online once"

    def _outdated(self, found: Snapshot) -> bool:
        """Whether a crawl has since added pages to the local index that answered this search."""
        if self.call.settings.offline or found.attrs.get("provider_used") != _LOCAL_INDEX:
            return False
        crawled = snapshots.marked(self.root, _CRAWLED) if self.scope.local else None
        return crawled is not None and crawled >= found.at

    def keep(self, table: pa.Table, attrs: Mapping[str, Any], at: datetime) -> Path | None:
        """Store an answer; where the cache cannot be written, warn once and go on without."""
        if not self.call.cache:
            return None
        try:
            return snapshots.put(self.root, self.question, table, attrs, now=at).path
        except OSError as error:
            if self.root not in _warned:
                _warned.add(self.root)
                warnings.warn(
                    f"the cache at {self.root} cannot be written ({error}): results are not "
                    "kept; WEBDATA_CACHE names another place, cache=False does without",
                    stacklevel=2,
                )
            return None

    def note_crawl(self) -> None:
        """Remember that the local index has changed; only a cache in use needs to know."""
        if self.scope.local and self.root.is_dir():
            try:
                snapshots.mark(self.root, _CRAWLED)
            except OSError:  # then nothing new is cached either
                return
