"""One client's conversation: protocol events in, statements run on a session, replies out."""
