"""Reads what sites and pages declare about the use of their content."""
