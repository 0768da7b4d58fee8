"""nginx as the provider that gateways ask, and as a proxy that is measured beside them."""

import json
import os
from pathlib import Path
from string import Template

PROGRAMS = ("nginx", "wrk")  # Debian's: apt-get install nginx-light wrk
ROUTES = {"chat > chat": "openai/gpt-4.1", "chat > messages": "anthropic/claude-sonnet-4-5"}
_CHAT_CALL = {
    "id": "call_abcdefghijklmnop",
    "type": "function",
    "function": {"name": "read_file", "arguments": '{"path":"a.txt","limit":null}'},
}
_MESSAGES_CALL = {
    "type": "tool_use",
    "id": "toolu_abcdefghijklmnop",
    "name": "read_file",
    "input": {"path": "a.txt", "limit": None},
}
_ANSWERS = {
    "/v1/chat/completions": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4.1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, "tool_calls": [_CHAT_CALL]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    },
    "/v1/messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [_MESSAGES_CALL],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    },
}
_SETTINGS = """
worker_processes 1; daemon off; pid $FOLDER/pid; error_log $FOLDER/log; $USER
events { worker_connections 4096; }
http {
  access_log off; client_max_body_size 64m; client_body_buffer_size 2m; keepalive_requests 1000000000;
  client_body_temp_path $FOLDER/a; proxy_temp_path $FOLDER/b; fastcgi_temp_path $FOLDER/c;
  uwsgi_temp_path $FOLDER/d; scgi_temp_path $FOLDER/e;
  upstream model { server 127.0.0.1:$MODEL; keepalive 64; keepalive_requests 1000000000; }
  server { listen 127.0.0.1:$MODEL; default_type application/json; root $FOLDER; $PATHS }
  server {
    listen 127.0.0.1:$PROXY;
    location / { proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
"""
_PATH = "location = $PATH { try_files /$FILE.json =404; error_page 405 =200 /$FILE.json; }"


def nginx(folder: Path, model: int, proxy: int) -> list[str]:
    """Write the settings of nginx, as a provider and as a proxy before it. Return its command line."""
    paths = []
    for index, (path, answer) in enumerate(_ANSWERS.items()):
        (folder / f"{index}.json").write_text(json.dumps(answer, separators=(",", ":")))
        paths.append(Template(_PATH).substitute(PATH=path, FILE=index))
    names = {"FOLDER": folder, "MODEL": model, "PROXY": proxy, "PATHS": " ".join(paths)}
    settings = folder / "nginx.conf"
    settings.write_text(Template(_SETTINGS).substitute(names, USER="user root;" if os.geteuid() == 0 else ""))
    return ["nginx", "-c", str(settings), "-p", str(folder)]


def gateway_settings(folder: Path, model: int, name: str, server: str = "") -> Path:
    """Write the settings of a toolwire gateway whose providers listen on the port `model`."""
    prices = "".join(f'"{route}" = {{ input = 1.0, output = 4.0 }}\n' for route in ROUTES.values())
    providers = "".join(
        f'[providers.{provider}]\nbase_url = "http://127.0.0.1:{model}"\nkey = "$BENCH_KEY"\n'
        for provider in ("openai", "anthropic")
    )
    file = folder / f"{name}.toml"
    file.write_text(f"{server}{providers}[prices]\n{prices}")
    return file
