"""The suites, one module for each, in the order of the page."""

from conformance.outcomes import Suite
from conformance.suites import ai_sdk, bfcl, canitoolcall, json_schema, langchain, llm_comply, open_responses

SUITES: tuple[Suite, ...] = (
    open_responses.SUITE,
    llm_comply.SUITE,
    langchain.SUITE,
    ai_sdk.SUITE,
    canitoolcall.SUITE,
    bfcl.SUITE,
    json_schema.SUITE,
)
# Those of a short run, which take half a minute together.
SHORT = ("open-responses", "canitoolcall", "json-schema")
