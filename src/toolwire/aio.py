"""The awaited face: the same names as the package's own, for async code."""

from toolwire.execution import aexecute as execute

__all__ = ["execute"]
