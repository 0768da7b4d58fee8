"""Each setting of a request has its severity in one row."""

import pytest

from toolwire.encoding.request_fields import REQUEST_FIELDS, RequestField
from toolwire.encoding.severities import severity_of_loss
from toolwire.types import Request

HELD_ELSEWHERE = {"context", "opaque"}


def test_each_field_of_a_request_has_a_row() -> None:
    missing = set(Request.__struct_fields__) - HELD_ELSEWHERE - set(REQUEST_FIELDS)
    assert not missing, (
        f"add a row for {', '.join(sorted(missing))} to REQUEST_FIELDS in encoding/request_fields.py: is its loss "
        "semantic (the model may do something else), minor, or formal?"
    )
    assert set(REQUEST_FIELDS) <= set(Request.__struct_fields__)


@pytest.mark.parametrize(("field", "row"), REQUEST_FIELDS.items())
def test_a_row_says_how_much_it_matters_that_a_setting_is_lost(field: str, row: RequestField) -> None:
    assert severity_of_loss(field, "dropped") == row.lost
