"""Turns rows into Arrow tables, DataFrames and files."""
