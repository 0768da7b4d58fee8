"""Requests, responses, streams and errors of one dialect as those of another."""

from toolwire.translation.translate import TranslatedStream, error, request, response, stream

__all__ = ["TranslatedStream", "error", "request", "response", "stream"]
