"""The tools of one turn, bound to one context that nobody else sees."""

from toolwire.resolvers.session import Session, prepare

__all__ = ["Session", "prepare"]
