"""Compares crawls of one site field by field, and collects the changes in a file."""
