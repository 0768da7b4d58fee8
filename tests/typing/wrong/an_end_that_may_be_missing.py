"""A stream that is not over has no end."""

from toolwire import stream

print(stream("Hello").done.ending)  # error: union-attr, reportOptionalMemberAccess
