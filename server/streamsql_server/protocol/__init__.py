"""The Postgres wire protocol as plain data: bytes in, events out; no sockets, no sessions."""
