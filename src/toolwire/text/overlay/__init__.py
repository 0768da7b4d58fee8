"""Dialects over a wire whose model writes tools, calls and results in text instead of the wire's own fields."""
