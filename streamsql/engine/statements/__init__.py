"""The statements: one file a family, registered in `registry.STATEMENTS`."""
