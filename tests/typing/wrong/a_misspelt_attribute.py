"""A function that is not there."""

import toolwire

toolwire.generat("Hello")  # error: attr-defined, reportAttributeAccessIssue
