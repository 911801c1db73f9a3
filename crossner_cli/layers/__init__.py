"""Neural parts that several methods share."""
