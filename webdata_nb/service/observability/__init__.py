"""Logs, metrics and the list of pending operations."""
