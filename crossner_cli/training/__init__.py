"""The one training loop, its plan, its checkpoints and the batches that it reads."""
