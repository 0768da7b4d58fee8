"""The gateway: one process that speaks five wires with clients and providers, and reports what translation loses."""

from toolwire.gateway.app import BodyLimits, Gateway

__all__ = ["BodyLimits", "Gateway"]
