"""Reads what a product page shows to people: price, availability, codes and labels."""
