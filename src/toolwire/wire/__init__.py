"""Bytes and texts: frames, JSON, argument texts, names, and the shape of HTTP."""
