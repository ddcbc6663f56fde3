"""Kernels under the Arrow evaluator: numpy views of Arrow columns, decimals, text loops."""
