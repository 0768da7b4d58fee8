"""What is wrong with a body for the other servers, and how they say so."""

from tests.testing.changes import ANTHROPIC, GEMINI, OLLAMA, Row, add, drop, put

ANTHROPIC_ROWS: list[Row] = [
    # --- the body ---
    (ANTHROPIC, drop("model"), "model: Field required"),
    (ANTHROPIC, drop("max_tokens"), "max_tokens: Field required"),
    (ANTHROPIC, put("messages", []), "messages: at least one message is required"),
    (ANTHROPIC, put("seed", 1), "seed: Extra inputs are not permitted"),
    (ANTHROPIC, put("temperature", 1), "temperature: Extra inputs are not permitted"),
    (ANTHROPIC, put("max_tokens", "9"), "max_tokens: Input should be a valid integer"),
    (ANTHROPIC, put("messages", 0, "role", "tool"), "messages.0.role: Input should be 'user', 'assistant'"),
    (ANTHROPIC, drop("messages", 0), 'first message must use the "user" role'),
    (ANTHROPIC, put("messages", 0, "content", ""), "messages.0: all messages must have non-empty content"),
    (ANTHROPIC, put("messages", 2, "content", 2, "text", ""), "text content blocks must be non-empty"),
    (
        ANTHROPIC,
        put("messages", 2, "content", 2, "text", " \n"),
        "text content blocks must contain non-whitespace text",
    ),
    (
        ANTHROPIC,
        put("messages", 2, "content", 2, "type", "words"),
        "messages.2.content.2: Input tag 'words' found using 'type'",
    ),
    (
        ANTHROPIC,
        add("messages", {"role": "assistant", "content": "I "}),
        "does not support assistant message prefill",
    ),
    (
        ANTHROPIC,
        put(
            "messages",
            0,
            "content",
            [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5,
        ),
        "Found 5.",
    ),
    # --- calls and results ---
    (
        ANTHROPIC,
        drop("messages", 4),
        "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: c3.",
    ),
    (
        ANTHROPIC,
        drop("messages", 2, "content", 0),
        "`tool_use` ids were found without `tool_result` blocks immediately after: c1.",
    ),
    (
        ANTHROPIC,
        lambda body: body["messages"][2]["content"].reverse(),
        "without `tool_result` blocks immediately after: c1, c2.",
    ),
    (
        ANTHROPIC,
        put("messages", 4, "content", 0, "tool_use_id", "c9"),
        "without `tool_result` blocks immediately after: c3.",
    ),
    (
        ANTHROPIC,
        add("messages", 4, "content", {"type": "tool_result", "tool_use_id": "c9"}),
        "unexpected `tool_use_id` found in `tool_result` blocks: c9.",
    ),
    (
        ANTHROPIC,
        add("messages", 4, "content", {"type": "tool_result", "tool_use_id": "c3"}),
        "each tool_use must have a single result.",
    ),
    (
        ANTHROPIC,
        lambda body: (
            put("messages", 3, "content", 1, "id", "c1")(body),
            put("messages", 4, "content", 0, "tool_use_id", "c1")(body),
        ),
        "`tool_use` ids must be unique",
    ),
    (ANTHROPIC, put("messages", 3, "content", 1, "id", "c.3"), "tool_use.id: String should match pattern"),
    (
        ANTHROPIC,
        put("messages", 3, "content", 1, "input", "{}"),
        "tool_use.input: Input should be a valid dictionary",
    ),
    (
        ANTHROPIC,
        put("messages", 0, "content", [{"type": "tool_use", "id": "c7", "name": "f", "input": {}}]),
        "`tool_use` blocks can only be in `assistant` messages",
    ),
    # --- thinking ---
    (
        ANTHROPIC,
        drop("messages", 1, "content", 0, "signature"),
        "messages.1.content.0.thinking.signature: Field required",
    ),
    (
        ANTHROPIC,
        put("messages", 1, "content", 0, "signature", "abc"),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    (ANTHROPIC, put("messages", 1, "content", 0, "thinking", "Three."), "bound to a different conversation"),
    (ANTHROPIC, put("system", "Be long."), "bound to a different conversation"),
    (ANTHROPIC, put("messages", 0, "content", "Whether?"), "bound to a different conversation"),
    (ANTHROPIC, drop("tools", 1), "bound to a different conversation"),
    (
        ANTHROPIC,
        put("thinking", {"type": "enabled", "budget_tokens": 2000}),
        '"thinking.type.enabled" is not supported',
    ),
    (ANTHROPIC, put("thinking", {"type": "disabled"}), '"thinking.type.disabled" is not supported'),
    (
        ANTHROPIC,
        put("tool_choice", {"type": "any"}),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    # --- tools ---
    (ANTHROPIC, put("tools", 1, "name", "f"), "tools: Tool names must be unique."),
    (ANTHROPIC, put("tools", 1, "name", "a.b"), "tools.1.custom.name: String should match pattern"),
    (ANTHROPIC, drop("tools", 1, "input_schema"), "tools.1.custom.input_schema: Field required"),
    (ANTHROPIC, put("tools", 1, "input_schema", {}), "tools.1.custom.input_schema.type: Field required"),
    (ANTHROPIC, put("tool_choice", {"type": "tool", "name": "h"}), "Tool 'h' not found in provided tools"),
    (ANTHROPIC, put("tool_choice", {"type": "required"}), "tool_choice: Input tag 'required' found"),
]

GEMINI_ROWS: list[Row] = [
    (
        GEMINI,
        lambda body: body.update(tools=[], toolConfig={"functionCallingConfig": {"mode": "AUTO"}}),
        "Function calling config is set without function_declarations.",
    ),
    # --- the body ---
    (GEMINI, drop("contents"), "contents is not specified"),
    (GEMINI, put("messages", []), 'Unknown name "messages": Cannot find field.'),
    (GEMINI, put("generationConfig", {"topk": 1}), "Unknown name \"topk\" at 'generation_config'"),
    (
        GEMINI,
        put("generationConfig", {"temperature": "1"}),
        "Invalid value at 'generation_config.temperature' (TYPE_FLOAT)",
    ),
    (GEMINI, put("contents", 0, "role", "assistant"), "Please use a valid role: user, model."),
    (GEMINI, put("contents", 0, "parts", []), "contents.parts must not be empty"),
    (GEMINI, put("contents", 0, "parts", [{}]), "must have one initialized field"),
    (
        GEMINI,
        put("contents", 0, "parts", [{"text": "x", "inlineData": {}}]),
        "oneof field 'data' is already set",
    ),
    # --- calls and responses ---
    (
        GEMINI,
        drop("contents", 2, "parts", 0),
        "number of function response parts is equal to the number of function call parts",
    ),
    (GEMINI, put("contents", 2, "parts", 0, "functionResponse", "name", "h"), "named as their calls are"),
    (
        GEMINI,
        put("contents", 2, "parts", 0, "functionResponse", "name", ""),
        "function_response.name: Name cannot be empty.",
    ),
    (GEMINI, drop("contents", 0), "function call turn comes immediately after a user turn"),
    (
        GEMINI,
        put("contents", 1, "parts", [{"text": "x"}]),
        "function response turn comes immediately after a function call turn",
    ),
    (GEMINI, drop("contents", 4), "requests end with a user turn or a function response turn"),
    (GEMINI, put("contents", 4, "role", "model"), "function responses are in a content of the role user"),
    # --- signatures ---
    (
        GEMINI,
        drop("contents", 1, "parts", 1, "thoughtSignature"),
        "function call `default_api:f` , position 2.",
    ),
    (
        GEMINI,
        drop("contents", 3, "parts", 0, "thoughtSignature"),
        "function call `default_api:f` , position 4.",
    ),
    (GEMINI, put("contents", 3, "parts", 0, "thoughtSignature", "YWJj"), "Corrupted thought signature."),
    # --- tools ---
    (
        GEMINI,
        put("tools", 0, "functionDeclarations", 1, "name", "f"),
        "Duplicate function declaration found: f",
    ),
    (
        GEMINI,
        put("tools", 0, "functionDeclarations", 1, "name", "1f"),
        "Must start with a letter or an underscore.",
    ),
    (
        GEMINI,
        put("tools", 0, "functionDeclarations", 1, {"name": "g", "parameters": {"oneOf": []}}),
        'Unknown name "oneOf"',
    ),
    (
        GEMINI,
        put(
            "tools",
            0,
            "functionDeclarations",
            1,
            {"name": "g", "parameters": {"type": "INTEGER", "enum": [1]}},
        ),
        ".enum[0]' (TYPE_STRING), 1",
    ),
    (
        GEMINI,
        put("toolConfig", {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["h"]}}),
        "'h' is not a declared function",
    ),
    (
        GEMINI,
        put("toolConfig", {"functionCallingConfig": {"allowedFunctionNames": ["f"]}}),
        "only when function calling mode is ANY",
    ),
]

OLLAMA_ROWS: list[Row] = [
    # --- all of it ---
    (OLLAMA, drop("model"), "model is required"),
    (
        OLLAMA,
        put("messages", 0, "content", ["x"]),
        "cannot unmarshal array into Go struct field ChatRequest.messages.content of type string",
    ),
    (
        OLLAMA,
        put("messages", 1, "tool_calls", 0, "function", "arguments", "{}"),
        "cannot unmarshal string into Go struct field ChatRequest.messages.tool_calls.function.arguments",
    ),
    (OLLAMA, put("messages", 0, "role", "human"), "invalid role: human"),
    (OLLAMA, put("messages", 0, "images", ["data:image/png;base64,aGk="]), "illegal base64 data"),
    (OLLAMA, put("think", "hard"), 'invalid think value: "hard"'),
    (OLLAMA, put("format", "yaml"), 'invalid format: "yaml"'),
]
