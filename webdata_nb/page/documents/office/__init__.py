"""Reads office documents and e-books: ZIP archives of XML parts, with limits on both."""
