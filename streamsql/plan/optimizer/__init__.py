"""Rewrite rules over the bound plan, applied in the order of RULES."""

from streamsql.plan.optimizer.driver import RULES, optimize

__all__ = ["RULES", "optimize"]
