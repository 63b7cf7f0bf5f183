"""Parquet files at the place for files, with the contents of pages that are not in the rows."""
