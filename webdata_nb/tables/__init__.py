"""Typed tables: the only place of the toolkit that knows pandas, Arrow and Parquet."""
