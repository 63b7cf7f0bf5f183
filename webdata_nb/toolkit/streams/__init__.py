"""Reads the rows of a job or a listing while they arrive."""
