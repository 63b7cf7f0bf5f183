"""Finds extracted values in the page they were read from: spans, quotes and verdicts."""
