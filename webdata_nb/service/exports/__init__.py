"""Writes the visible rows of a job as one file while it is sent: JSON, CSV or ZIP.

The number of rows is fixed at the start. If rows are missing later, because they expired, the
connection breaks: a short file would look complete.
"""
