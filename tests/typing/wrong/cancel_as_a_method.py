"""The object itself is called."""

from toolwire import Cancel

Cancel().cancel()  # error: attr-defined, reportAttributeAccessIssue
