"""All tests run with the circuit's invariant checks on every edge."""

import os

os.environ.setdefault("STREAMSQL_CHECK", "1")
