import json
import sys

from toolwire import translate

for number, line in enumerate(sys.stdin, 1):
    encoded = translate.request(json.loads(line), source="openai-chat", target="anthropic")
    print(json.dumps(encoded.body))
    for loss in encoded.losses:
        if loss.severity != "formal":
            print(f"{number}: {loss.severity}: {loss}", file=sys.stderr)
