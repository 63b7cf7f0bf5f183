"""Site audits: the link graph of a crawl, and findings about its pages."""
