"""`python -m streamsql_repl [DSN]`."""

import sys

from streamsql_repl import main

sys.exit(main(sys.argv[1:]))
