"""The sample web, its server and the tour."""
