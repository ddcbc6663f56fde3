"""INSERT, UPDATE, DELETE: from bound statements to changes of a table."""
