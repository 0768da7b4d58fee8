"""Work that may have to wait: steps for sync and async code, threads, and the outcomes of calls."""
