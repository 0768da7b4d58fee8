"""The tools of one turn, bound to a context of their own."""

from toolwire.resolvers.session import Session, prepare

__all__ = ["Session", "prepare"]
