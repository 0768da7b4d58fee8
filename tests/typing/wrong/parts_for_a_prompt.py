"""Parts stand in a message."""

from toolwire import Text, generate

generate([Text("Hello")])  # error: list-item, reportArgumentType
