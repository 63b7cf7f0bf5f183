"""Fetches, renders and scrapes one page, with retries and a deadline."""
