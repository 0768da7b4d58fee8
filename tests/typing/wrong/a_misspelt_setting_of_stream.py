"""A setting of a stream that is none."""

from toolwire import stream

stream("Hello", sytem="Be brief.")  # error: call-overload, reportCallIssue
