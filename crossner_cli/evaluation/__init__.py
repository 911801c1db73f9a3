"""Scores, kinds of errors, buckets, significance and comparison."""
