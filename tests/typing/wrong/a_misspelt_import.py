"""A name that is not there."""

from toolwire import Clinet  # error: attr-defined, reportAttributeAccessIssue
