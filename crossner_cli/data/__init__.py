"""Labelled sentences and plain text: formats, tag schemes, known data sets, splits, statistics and leaks."""
