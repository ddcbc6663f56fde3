"""Event time against a model that is small, slow and written from the language's rules alone."""
