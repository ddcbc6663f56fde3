"""PostgreSQL's text form of every type: reading (`parse_text`) and writing (`to_text`), a column at a time."""
