"""Our own text protocol, for models that have no other: blocks of `~~~tool_call`, which occupy whole lines.

Rules of this package:
- A block in code, in a comment or in a thought is not a call. A block begins and ends with a line.
- A block that is not a valid call becomes an error with a reason. The other calls of the answer are still returned.
- The same text returns the same calls and ids, however it is split into pieces.
"""
