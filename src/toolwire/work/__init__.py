"""Running what may wait: steps for sync and async code, threads, and what became of a call."""
