"""A method of `Cancel` that is not there."""

from toolwire import Cancel

Cancel().stop()  # error: attr-defined, reportAttributeAccessIssue
