"""The Postgres-wire server of streamsql."""

__version__ = "0.1.0"
