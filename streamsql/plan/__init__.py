"""Logical plan: nodes, binder, rules, SQL lowering."""
