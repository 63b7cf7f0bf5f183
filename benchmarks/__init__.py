"""Programs that compare this package with named peers."""
