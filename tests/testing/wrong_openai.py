"""What is wrong with a body for the servers of OpenAI, and how they say so."""

from tests.testing.changes import CHAT, RESPONSES, Row, add, drop, put
from tests.testing.histories import AGAIN, OBJECT, STRICT

CHAT_ROWS: list[Row] = [
    # --- the body ---
    (CHAT, drop("model"), "Missing required parameter: 'model'."),
    (CHAT, drop("messages"), "Missing required parameter: 'messages'."),
    (CHAT, put("messages", []), "Invalid 'messages': empty array."),
    (CHAT, put("top_k", 1), "Unknown parameter: 'top_k'."),
    (
        CHAT,
        put("temperature", "1"),
        "Invalid type for 'temperature': expected one of a decimal or null, but got a string",
    ),
    (CHAT, put("temperature", 3), "Invalid 'temperature': integer above maximum value."),
    (CHAT, put("stop", ["a"] * 5), "Invalid 'stop': array too long."),
    (CHAT, put("stream_options", {}), "only allowed when 'stream' is enabled"),
    (CHAT, put("messages", 1, "role", "human"), "Invalid value: 'human'. Supported values are: 'system',"),
    (CHAT, put("messages", 1, "content", None), "expected a string, got null"),
    (CHAT, put("messages", 1, "content", 0, "type", "words"), "Invalid value: 'words'."),
    (
        CHAT,
        put("messages", 3, "content", [{"type": "image_url", "image_url": {"url": "x"}}]),
        "Invalid value: 'image_url'",
    ),
    (CHAT, put("response_format", {"type": "json_object"}), "must contain the word 'json'"),
    # --- calls and results ---
    (
        CHAT,
        put("messages", 2, "tool_calls", 0, "function", "arguments", {}),
        "expected a string, but got an object",
    ),
    (
        CHAT,
        drop("messages", 2, "tool_calls", 0, "id"),
        "Missing required parameter: 'messages[2].tool_calls[0].id'.",
    ),
    (
        CHAT,
        put("messages", 2, "tool_calls", 0, "id", "x" * 41),
        "maximum length 40, but got a string with length 41",
    ),
    (CHAT, put("messages", 2, "tool_calls", []), "Invalid 'messages[2].tool_calls': empty array."),
    (CHAT, drop("messages", 3), "did not have response messages: c1"),
    (CHAT, drop("messages", 6), "did not have response messages: c3"),
    (
        CHAT,
        add("messages", {"role": "tool", "tool_call_id": "c9", "content": ""}),
        "'tool_call_id' of 'c9' not found",
    ),
    (CHAT, put("messages", 4, "tool_call_id", "c9"), "'tool_call_id' of 'c9' not found"),
    (CHAT, drop("messages", 2), "must be a response to a preceeding message with 'tool_calls'"),
    (CHAT, drop("messages", 3, "tool_call_id"), "Missing required parameter: 'messages[3].tool_call_id'."),
    # --- tools ---
    (CHAT, put("tools", []), "Invalid 'tools': empty array."),
    (CHAT, lambda body: body["tools"].extend(body["tools"] * 64), "Invalid 'tools': array too long."),
    (CHAT, put("tools", 1, "function", "name", "f"), "'f' is declared twice"),
    (CHAT, put("tools", 1, "function", "name", "a b"), "Expected a string that matches the pattern"),
    (
        CHAT,
        put("tools", 1, "function", "name", "x" * 65),
        "maximum length 64, but got a string with length 65",
    ),
    (CHAT, put("tools", 1, "function", "parameters", {"type": "array"}), "got 'type: \"array\"'"),
    (
        CHAT,
        put("tools", 1, "function", {"name": "g", "strict": True, "parameters": OBJECT}),
        "'additionalProperties' is required",
    ),
    (CHAT, put("tools", 1, "function", {"name": "g", "strict": True, "parameters": STRICT}), "Missing 'a'."),
    (CHAT, put("tool_choice", "any"), "Invalid value: 'any'. Supported values are: 'none',"),
    (CHAT, put("tool_choice", {"type": "function", "function": {"name": "h"}}), "Tool choice 'h' not found"),
]

RESPONSES_ROWS: list[Row] = [
    # --- the body ---
    (RESPONSES, drop("model"), "Missing required parameter: 'model'."),
    (RESPONSES, drop("input"), "Missing required parameter: 'input'."),
    (RESPONSES, put("stop", "x"), "Unknown parameter: 'stop'."),
    (RESPONSES, put("max_output_tokens", 1), "integer below minimum value. Expected a value >= 16"),
    (RESPONSES, put("temperature", 0.5), "'temperature' does not support 0.5 with this model."),
    (RESPONSES, put("input", 0, "role", "tool"), "Invalid value: 'tool'. Supported values are: 'assistant',"),
    (
        RESPONSES,
        put("input", 0, "content", [{"type": "text", "text": "x"}]),
        "Supported values are: 'input_text',",
    ),
    (RESPONSES, put("input", 0, {"type": "words"}), "Invalid value: 'words'."),
    (RESPONSES, put("text", {"format": {"type": "json_object"}}), "must contain the word 'json'"),
    (RESPONSES, put("text", {"format": {"type": "json_schema", "schema": {}}}), "'text.format.name'"),
    # --- calls, results, reasoning ---
    (RESPONSES, drop("input", 5), "No tool output found for function call c1."),
    (RESPONSES, drop("input", 4), "No tool call found for function call output with call_id c3."),
    (RESPONSES, put("input", 2, "arguments", {}), "expected a string, but got an object"),
    (RESPONSES, put("input", 2, "call_id", "x" * 65), "maximum length 64, but got a string with length 65"),
    (RESPONSES, drop("input", 5, "output"), "Missing required parameter: 'input[5].output'."),
    (RESPONSES, put("previous_response_id", "resp_9"), "Previous response with id 'resp_9' not found."),
    (
        RESPONSES,
        drop("input", 1),
        "'fc_c1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'",
    ),
    (RESPONSES, put("input", 1, "encrypted_content", "gAAAA"), "rs_1 could not be verified"),
    (
        RESPONSES,
        put("input", 1, {"type": "reasoning", "id": "rs_2", "summary": []}),
        "Item with id 'rs_2' not found.",
    ),
    (RESPONSES, put("input", 1, {"type": "item_reference", "id": "rs_2"}), "Item with id 'rs_2' not found."),
    (
        RESPONSES,
        lambda body: body["input"].insert(2, AGAIN),
        "'rs_1' of type 'reasoning' was provided without its required following",
    ),
    # --- tools ---
    (
        RESPONSES,
        put("tools", 0, {"type": "function", "function": {"name": "f"}}),
        "Missing required parameter: 'tools[0].name'.",
    ),
    (RESPONSES, put("tools", 0, "name", "g"), "'g' is declared twice"),
    (RESPONSES, put("tools", 0, "name", "x" * 129), "maximum length 128"),
    (RESPONSES, put("tool_choice", {"type": "function", "name": "h"}), "Tool choice 'h' not found"),
]
