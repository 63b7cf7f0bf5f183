"""The sample web that ships with the package, and the tour over it."""
