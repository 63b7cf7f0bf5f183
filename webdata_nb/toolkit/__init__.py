"""Runs jobs at a service and returns their results as DataFrames; `webdata_nb` has its names."""
