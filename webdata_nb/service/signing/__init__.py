"""Signs requests to web sites with HTTP message signatures, so that sites can verify the sender."""
