"""Files of the service, in a folder or at a URL of fsspec: of creatives and of stored pages."""
