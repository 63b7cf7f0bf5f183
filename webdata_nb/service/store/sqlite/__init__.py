"""The store on SQLite: write-ahead log, full synchronisation, one writer with group commit."""
