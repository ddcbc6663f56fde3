"""Ad-hoc reads: one version of every relation, answered by Arrow kernels or by DuckDB."""
