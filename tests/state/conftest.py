"""A small fixed budget for property tests; STREAMSQL_DEEP=1 makes it large."""

import os

from hypothesis import settings

DEEP = bool(os.environ.get("STREAMSQL_DEEP"))
settings.register_profile("rooms", deadline=None, max_examples=3000 if DEEP else 40)
settings.load_profile("rooms")
