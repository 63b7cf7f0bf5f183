"""Speaks the wire contract: a method per endpoint, and the loops over them.

`client` calls, `transport` sends (the only place that knows httpx), `retry` decides, `limiter`
paces, `answers` reads, `waiting` follows a job, `paging` exhausts pages and cursors.
"""
