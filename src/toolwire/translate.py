"""Requests, responses, streams and errors of one dialect as those of another."""

from toolwire.translation.translate import Stream, error, request, response, stream

__all__ = ["Stream", "error", "request", "response", "stream"]
