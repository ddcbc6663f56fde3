"""Bound expressions and their two evaluators."""
