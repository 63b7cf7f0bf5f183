"""Writes the visible rows of a job as one file while it is sent: JSON, CSV or ZIP."""
