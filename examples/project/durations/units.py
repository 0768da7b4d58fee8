"""The units of durations, the largest first."""

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
