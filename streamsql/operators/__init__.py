"""One file per incremental operator."""
