"""The Postgres-wire server of streamsql."""
