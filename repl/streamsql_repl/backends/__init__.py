"""Where statements run: embedded or on a server."""
