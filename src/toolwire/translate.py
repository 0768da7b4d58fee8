"""Translates requests, responses, streams and errors from one dialect to another."""

from toolwire.translation.exchange import Exchange, exchange
from toolwire.translation.exchange_answer import ExchangedStream
from toolwire.translation.paths import wire_of
from toolwire.translation.translate import TranslatedStream, error, request, response, stream

__all__ = [
    "Exchange",
    "ExchangedStream",
    "TranslatedStream",
    "error",
    "exchange",
    "request",
    "response",
    "stream",
    "wire_of",
]
