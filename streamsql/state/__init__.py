"""Mutable state: column store, arrangement, log, checkpoints."""
