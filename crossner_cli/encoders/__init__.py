"""Encoders: sentences to one vector a word."""
