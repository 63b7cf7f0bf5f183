"""Tests of the cached results on disk."""
