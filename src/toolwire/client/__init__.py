"""Clients of models: single requests and conversations with tools, in sync and in async code."""
