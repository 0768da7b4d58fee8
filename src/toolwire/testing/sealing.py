"""Signatures, ids and counts of the simulated model: derived, never random, recognised when they come back.

Rules of this file:
- A seal binds a value: whoever changes the value cannot make another seal by accident.
- A token carries its own proof, for wires on which only the token comes back.
- Seals are no secrets: this model has nothing to protect.
"""

import base64
import hashlib
from typing import Any

import msgspec

HEAD = b"toolwire simulated "
_PROOF = 8
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def digest(*values: Any) -> bytes:
    """Digest values; the same ones give the same digest, whatever the order of their keys."""
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).digest()


def seal(*values: Any) -> str:
    """Sign values."""
    return base64.b64encode(HEAD + digest(*values)).decode()


def token(*values: Any) -> str:
    """Make a token of values, which `is_token` recognises without them."""
    core = digest(*values)
    return base64.b64encode(HEAD + core + digest(core.hex())[:_PROOF]).decode()


def is_token(text: Any) -> bool:
    """Whether a text is a token that was made here, in either alphabet of base64."""
    if type(text) is not str:
        return False
    try:
        data = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return False
    core, proof = data[len(HEAD) : -_PROOF], data[-_PROOF:]
    return data.startswith(HEAD) and digest(core.hex())[:_PROOF] == proof


def make_id(prefix: str, length: int, *values: Any) -> str:
    """Make an id of so many letters and digits."""
    number, letters = int.from_bytes(digest(*values)), []
    for _ in range(length):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return prefix + "".join(letters)


def count_tokens(value: Any) -> int:
    """Count tokens as nobody does exactly: four bytes of JSON each."""
    return -(-len(msgspec.json.encode(value)) // 4)
