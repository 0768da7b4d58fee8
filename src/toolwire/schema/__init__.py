"""Fits JSON Schemas to what each target understands, and removes the nulls that strict schemas bring."""

from toolwire.schema.fitting import fit
from toolwire.schema.nulls import prune_nulls
from toolwire.schema.targets import TARGETS, Action, Fitted, Note

__all__ = ["TARGETS", "Action", "Fitted", "Note", "fit", "prune_nulls"]
