"""Domain-adaptive pre-training: masking, token streams, masked and character language models."""
