"""The exit code of each ending of a run, and the words for it."""

ANSWERED, UNANSWERED, LIMIT, INTERRUPTED = 0, 1, 3, 130
ENDINGS: dict[str, tuple[int, str]] = {
    "answer": (ANSWERED, ""),
    "limit": (LIMIT, "no answer within the limit"),
    "budget": (LIMIT, "no answer within the budget"),
    "no_progress": (UNANSWERED, "no progress"),
    "unread_call": (UNANSWERED, "a call was not read"),
    "refused": (UNANSWERED, "the model refused"),
    "cancelled": (INTERRUPTED, "interrupted"),
    "error": (UNANSWERED, "failed"),
}
