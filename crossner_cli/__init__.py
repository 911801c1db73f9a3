"""crossner: take a named-entity tagger to a new domain."""

__version__ = "0.1.0"
