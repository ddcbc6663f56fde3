"""One file per family of statements; `registry.PARSERS` says which words start which."""
