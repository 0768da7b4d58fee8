"""Asking a model and leading a conversation with tools, in sync and in async code."""
