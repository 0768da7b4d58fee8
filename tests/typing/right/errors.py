"""What is raised, and what it says."""

import time

from toolwire import Client, LLMFactory, NoStructuredOutput, ProviderError, ToolwireError
from toolwire.client.failures import AuthenticationFailed, ContextTooLong, RateLimited


def ask(client: Client, prompt: str) -> str:
    try:
        return client.run(prompt).content or ""
    except AuthenticationFailed as problem:
        return f"the key of {problem.provider} is wrong"
    except RateLimited:
        time.sleep(1)
        return ask(client, prompt)
    except ContextTooLong as problem:
        return str(problem.error.message)
    except ProviderError as problem:
        return f"{problem.status} {problem.request_id} {problem.retryable}"
    except NoStructuredOutput as problem:
        return problem.text
    except ToolwireError as problem:
        return problem.path or str(problem)


def several() -> Client:
    return LLMFactory.create_with_fallback(["openai/gpt-6-sol", "anthropic/claude-sonnet-5-5"], fallback=False)
