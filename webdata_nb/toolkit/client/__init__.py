"""Calls the HTTP API: one method per endpoint, retries, pacing, paging and the wait for jobs."""
