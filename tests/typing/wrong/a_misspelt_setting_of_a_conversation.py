"""A setting of a conversation that is none."""

import toolwire

toolwire.conversation("openai/gpt-4o", sistem="Be brief.")  # error: call-arg, reportCallIssue
