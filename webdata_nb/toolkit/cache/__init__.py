"""Cached results on disk: list, measure and clear them.

The cache keeps every complete result as a Parquet file. The files outlive the service's retention
and answer the same call again. `WEBDATA_CACHE` or `WEBDATA_HOME` set their folder.

Examples
--------
>>> from webdata_nb import cache
>>> sorted(cache.ls().columns)
['at', 'bytes', 'file', 'op', 'rows', 'subject']
"""

from webdata_nb.toolkit.cache.management import clear, ls, path, size

__all__ = ["clear", "ls", "path", "size"]
