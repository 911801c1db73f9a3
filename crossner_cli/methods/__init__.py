"""One file per tagging method, and the contract of all methods."""
