"""Messages are strings, maps and values."""

from toolwire import Context

Context("sys", ["Hello", 5], [])  # error: list-item, reportArgumentType
