"""Encoders: sentences to one vector per word."""
