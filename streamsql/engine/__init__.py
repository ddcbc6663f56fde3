"""The database: catalog, sessions, statements, transactions, durability."""
