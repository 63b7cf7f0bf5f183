"""Processes that run the jobs of a service on PostgreSQL, without HTTP."""
