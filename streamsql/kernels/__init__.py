"""The numba loops: pure functions over numpy arrays."""
