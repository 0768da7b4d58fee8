"""Requests of a Responses client whose tools stand in namespaces, in items of the input, and have no names."""

from typing import Any

PATH: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
GRAMMAR: dict[str, Any] = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"}
PATCH = '*** Begin\n+"grün" \\ \U0001f600\n*** End\n'


def function(name: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": f"Does {name}.",
        "strict": False,
        "parameters": PATH,
    } | more


def custom(name: str) -> dict[str, Any]:
    return {"type": "custom", "name": name, "description": f"Does {name}.", "format": GRAMMAR}


def space(name: str, *tools: Any, **more: Any) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": "", "tools": list(tools)} | more


def words(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


SEARCH: dict[str, Any] = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "I look."}],
    "content": None,
    "encrypted_content": "gAAA",
}


def call(name: str, call_id: str, arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id} | more


def text_call(name: str, call_id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": f"ctc_{call_id}", "name": name, "call_id": call_id, "input": text} | more


def result(call_id: str, output: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": output}


# Each body with the names that its tools have where there is only one name.
DECLARED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "in tools": (
        {
            "input": [words("developer", "Be brief."), words("user", "Hi.")],
            "tools": [
                function("look"),
                custom("patch"),
                space("agents", function("stop"), custom("run"), description="For agents."),
                space("mcp__tiny", function("look"), function("say", description=None), defer=True),
                function("last"),
                SEARCH,
                {"type": "web_search", "external_web_access": True},
            ],
        },
        ["look", "patch", "agents__stop", "agents__run", "mcp__tiny__look", "mcp__tiny__say", "last", "tool_search"],
    ),
    "in the input": (
        {
            "input": [
                {
                    "type": "additional_tools",
                    "id": "at_1",
                    "role": "developer",
                    "tools": [space("functions", custom("exec"), function("wait")), function("ask")],
                },
                words("developer", "Be brief."),
                words("developer", "Be kind."),
                words("user", "Hi."),
                words("assistant", "Yes?"),
                {"type": "additional_tools", "role": "developer", "tools": [function("late"), {"type": "web_search"}]},
                words("user", "Go on."),
                {"type": "additional_tools", "role": "developer", "tools": []},
            ],
        },
        ["functions__exec", "functions__wait", "ask", "late"],
    ),
    "found": (
        {
            "input": [
                words("user", "Hi."),
                {
                    "type": "tool_search_call",
                    "id": "tsc_1",
                    "call_id": "s1",
                    "execution": "client",
                    "arguments": {"query": "say"},
                    "status": "completed",
                },
                {
                    "type": "tool_search_output",
                    "call_id": "s1",
                    "execution": "client",
                    "status": "completed",
                    "tools": [space("crm", function("say", defer_loading=True)), function("look"), function("old")],
                },
                call("say", "c1", '{"path": "a"}', namespace="crm", id="fc_1", status="completed"),
                result("c1", "said"),
            ],
            "tools": [function("look"), SEARCH],
        },
        ["look", "tool_search", "crm__say", "old"],
    ),
    "without names": (
        {
            "input": [
                words("user", "Hi."),
                {
                    "type": "apply_patch_call",
                    "id": "apc_1",
                    "call_id": "p1",
                    "status": "completed",
                    "operation": {"type": "create_file", "path": "a", "diff": "+x"},
                },
                {"type": "apply_patch_call_output", "call_id": "p1", "status": "failed", "output": "no"},
                {"type": "apply_patch_call", "call_id": "p2", "operation": {"type": "delete_file", "path": "a"}},
                {"type": "apply_patch_call_output", "call_id": "p2", "status": "completed"},
                {
                    "type": "shell_call",
                    "call_id": "h1",
                    "action": {"commands": ["ls", "pwd"], "timeout_ms": 9, "max_output_length": None},
                    "environment": {"type": "local"},
                    "status": "completed",
                },
                {
                    "type": "shell_call_output",
                    "call_id": "h1",
                    "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
                    "max_output_length": 99,
                },
                {
                    "type": "local_shell_call",
                    "id": "lsh_1",
                    "call_id": "l1",
                    "action": {"type": "exec", "command": ["ls"], "env": {"A": "b"}},
                    "status": "completed",
                },
                {"type": "local_shell_call_output", "id": "l1", "output": "Error: none"},
            ],
            "tools": [
                {"type": "apply_patch"},
                {"type": "shell", "environment": {"type": "local"}},
                {"type": "local_shell"},
            ],
        },
        ["apply_patch", "shell", "local_shell"],
    ),
    "of one name": (
        {
            "input": [
                words("user", "Hi."),
                call("b__c", "c1", namespace="a"),
                result("c1", "1"),
                call("c", "c2", namespace="a__b"),
                result("c2", "2"),
                call("a__b__c", "c3"),
                {**result("c3", "3"), "name": "a__b__c", "namespace": None},
            ],
            "tools": [
                space("a", function("b__c")),
                space("a__b", function("c"), function("c"), function("c", strict=True)),
                function("a__b__c"),
                space("a", function("d")),
            ],
        },
        ["a__b__c", "a__b__c_2", "a__b__c_3", "a__d"],
    ),
    "odd": (
        {
            "input": [
                {"type": "additional_tools", "role": "developer", "tools": None},
                {"type": "additional_tools", "role": "developer", "tools": [None, space("a", None, {}, function("b"))]},
                {"type": "tool_search_output", "execution": "client", "call_id": None, "tools": None},
                {"type": "tool_search_output", "execution": "server", "tools": [function("hosted")]},
                {"type": "tool_search_call", "execution": "client", "arguments": '{"query": "x"}'},
                {"type": "tool_search_call", "execution": "client", "arguments": [1]},
                {"type": "apply_patch_call", "operation": "x"},
                {"type": "shell_call", "call_id": "h", "environment": {"type": "container_reference"}, "action": {}},
                {"type": "shell_call_output", "call_id": "h", "output": []},
                {"type": "shell_call_output", "call_id": "i", "output": None},
            ],
            "tools": [
                space("empty"),
                {"type": "namespace", "name": 5, "tools": [function("x")]},
                {"type": "namespace", "name": "y", "tools": "x"},
                space("z", space("deep", function("x"))),
                {"type": "tool_search"},
                {"type": "shell", "environment": {"type": "container_auto"}},
                None,
            ],
        },
        ["a__b"],
    ),
}
# Two turns as a client sends them back.
HISTORY: dict[str, Any] = {
    "input": [
        words("developer", "Be brief."),
        words("user", "Hi."),
        REASONING,
        text_call("exec", "c1", PATCH, namespace="functions"),
        result("c1", [{"type": "input_text", "text": "done"}], "custom_tool_call_output"),
        {**REASONING, "id": "rs_2"},
        call("look", "c2", '{"path": "a"}', namespace="mcp__tiny", id="fc_2"),
        text_call("patch", "c3", PATCH),
        result("c2", "seen"),
        result("c3", "patched", "custom_tool_call_output"),
        words("user", "Thanks."),
    ],
    "tools": [space("functions", custom("exec")), space("mcp__tiny", function("look")), custom("patch")],
}
