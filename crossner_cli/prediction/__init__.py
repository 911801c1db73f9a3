"""Documents in, tagged documents out."""
