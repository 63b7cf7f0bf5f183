"""The store's protocols, implemented with named SQL statements on a small `Database` protocol."""
