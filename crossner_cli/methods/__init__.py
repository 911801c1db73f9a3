"""One file a tagging method, and the contract that all of them keep."""
