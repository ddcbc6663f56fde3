"""Arrow columns to the bytes PostgreSQL sends, and parameters back; one file per wire type."""
