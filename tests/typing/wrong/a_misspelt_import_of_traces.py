"""A name that the module of traces does not have."""

from toolwire.traces import Stroe  # error: attr-defined, reportAttributeAccessIssue
