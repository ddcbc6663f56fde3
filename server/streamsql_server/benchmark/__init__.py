"""The benchmark suites behind `streamsql bench`."""
