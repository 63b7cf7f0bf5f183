"""Cached results, job references and locks on disk; public functions look, measure and clear."""

from webdata_nb.cache.management import clear, ls, path, size

__all__ = ["clear", "ls", "path", "size"]
