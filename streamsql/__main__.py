"""`python -m streamsql`: the same command as `streamsql`."""

import importlib

if __name__ == "__main__":
    importlib.import_module("streamsql_server.cli").main(prog_name="streamsql")
