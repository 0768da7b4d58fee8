"""Any client to any model: one process that speaks five wires, both ways, and says what happened."""

from toolwire.gateway.app import BodyLimits, Gateway

__all__ = ["BodyLimits", "Gateway"]
