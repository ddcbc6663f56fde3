"""The REPL of streamsql."""
