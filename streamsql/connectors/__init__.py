"""Sources: where rows come from, one file each, listed in `registry.SOURCES`."""
