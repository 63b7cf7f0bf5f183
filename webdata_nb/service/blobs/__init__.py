"""Files of the service, in a folder or at a URL of fsspec: the downloaded files of creatives."""
