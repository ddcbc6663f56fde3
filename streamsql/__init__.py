"""streamsql: a streaming SQL database."""
