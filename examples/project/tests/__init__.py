"""The tests of durations."""
