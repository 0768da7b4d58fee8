"""Our own protocol, for models that have no other: blocks of `~~~tool_call`, in lines.

Rules of this package:
- Nothing that stands in code, comments or thoughts is a call. A block begins and ends with a line.
- A block that is no call is an error that says why; it never takes the good calls of its answer with it.
- The same text gives the same calls and ids, however it was cut.
"""
