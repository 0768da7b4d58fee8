"""Arguments against the schema of their tool, before anything runs: what is admitted, and what is said."""

from toolwire.schema.validation.validator import Validator

__all__ = ["Validator"]
