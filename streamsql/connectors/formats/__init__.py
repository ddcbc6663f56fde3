"""Formats: bytes to columns. The good rows of a block come as one batch, the bad ones as a list."""
