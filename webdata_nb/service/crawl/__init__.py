"""A site becomes rows: crawl order, scope, robots and the account of every URL seen."""
