"""Signatures, ids and token counts of the simulated model: derived, never random, and recognised when they come back.

Rules of this file:
- A seal binds a value: a changed value does not match it.
- A token carries its own proof, for wires on which only the token comes back.
- Seals are not secret: this model has nothing to protect.
"""

import base64
import hashlib
from typing import Any

import msgspec

HEAD = b"toolwire simulated "
_PROOF = 8
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def digest(*values: Any) -> bytes:
    """Return a digest of the values, whatever the order of their keys."""
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).digest()


def seal(*values: Any) -> str:
    """Return a signature of the values."""
    return base64.b64encode(HEAD + digest(*values)).decode()


def token(*values: Any) -> str:
    """Return a token of the values, which `is_token` recognises without them."""
    core = digest(*values)
    return base64.b64encode(HEAD + core + digest(core.hex())[:_PROOF]).decode()


def is_token(text: Any) -> bool:
    """Return True if a text is a token that was made here, in either alphabet of base64."""
    if type(text) is not str:
        return False
    try:
        data = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return False
    core, proof = data[len(HEAD) : -_PROOF], data[-_PROOF:]
    return data.startswith(HEAD) and digest(core.hex())[:_PROOF] == proof


def make_id(prefix: str, length: int, *values: Any) -> str:
    """Return an id of `length` letters and digits, derived from the values."""
    number, letters = int.from_bytes(digest(*values)), []
    for _ in range(length):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return prefix + "".join(letters)


def count_tokens(value: Any) -> int:
    """Return an estimated token count: one for each four bytes of JSON."""
    return -(-len(msgspec.json.encode(value)) // 4)
