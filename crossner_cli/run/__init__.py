"""Run directories: stages, locks, manifests, digests and progress records."""
