"""JSON Schemas as each target understands them, and the nulls that strictness brings, taken out again."""

from toolwire.schema.fitting import fit
from toolwire.schema.nulls import prune_nulls
from toolwire.schema.targets import TARGETS, Action, Fitted, Note

__all__ = ["TARGETS", "Action", "Fitted", "Note", "fit", "prune_nulls"]
