"""What durations promise."""

import unittest

from durations import seconds_of, text_of


class Durations(unittest.TestCase):
    """Reading and writing."""

    def test_one_unit_is_read(self) -> None:
        """One unit."""
        self.assertEqual(seconds_of("90s"), 90)

    def test_several_units_are_read(self) -> None:
        """Several units are added up."""
        self.assertEqual(seconds_of("1h30m"), 5400)

    def test_what_is_written_is_read(self) -> None:
        """Writing goes back."""
        for seconds in (1, 60, 3601, 90061):
            self.assertEqual(seconds_of(text_of(seconds)), seconds)

    def test_what_is_no_duration_is_refused(self) -> None:
        """Other texts are none."""
        self.assertRaises(ValueError, seconds_of, "soon")
