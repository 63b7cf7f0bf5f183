"""A job's visible rows as one file, written while it is sent: JSON, CSV or ZIP."""
