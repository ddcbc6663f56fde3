"""The numba loops of the operators: flat arrays and addresses in, flat arrays out."""
