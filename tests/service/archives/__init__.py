"""WARC and WACZ files as the source of a crawl."""
