"""Database, session, catalog, statements."""
