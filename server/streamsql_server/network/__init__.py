"""Sockets and threads: asyncio on one side, workers that run statements on the other."""
