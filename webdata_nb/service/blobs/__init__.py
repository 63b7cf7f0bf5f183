"""Files of the service, in a folder or at a URL of fsspec: downloaded files of creatives, and segments."""
