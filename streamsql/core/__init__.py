"""Words all rooms share: errors, types, schemas, deltas, time."""
