"""A page as data: from the bytes that were fetched to every format of the contract."""
