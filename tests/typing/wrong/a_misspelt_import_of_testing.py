"""A name that the simulated model does not have."""

from toolwire.testing import simulat  # error: attr-defined, reportAttributeAccessIssue
