"""The methods themselves, one a file."""
