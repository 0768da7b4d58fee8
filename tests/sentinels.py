"""Secrets that no log, no trace and no span may have; every one of them has a mark that tells it."""

LONG = "SENTINEL/5f2c9e+1b7a é"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+SENTINEL/5f2c\nabc=\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJTRU5USU5FTCJ9.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
KEYS = {
    "openai": "sk-proj-SENTINEL5f2c9e1b7a",
    "anthropic": "sk-ant-api03-SENTINEL_5f2c9e1b7a-AA",
    "google": "AIzaSySENTINEL5f2c9e1b7aSENTINEL5f2c9e1",
    "groq": "gsk_SENTINEL5f2c9e1b7a5f2c9e1b7a",
    "github": "ghp_SENTINEL5f2c9e1b7aSENTINEL5f2c9e1b7a",
    "github fine": "github_pat_11SENTINEL_5f2c9e1b7aSENTINEL5f2c9e1b7a",
    "gitlab": "glpat-SENTINEL5f2c9e1b7a5f2c9e",
    "slack": "xoxb-123456789012-SENTINEL5f2c9e1b7a",
    "aws": "AKIASENTINEL5F2C9E1B",
    "stripe": "sk_live_SENTINEL5f2c9e1b7a",
    "jwt": JWT,
    "pem": PEM,
    "pem cut off": PEM[:60],
    "bearer": "Bearer SENTINEL.5f2c9e1b7a",
    "header": "Authorization: Basic U0VOVElORUw=",
    "x-header": "X-Api-Key: SENTINEL5f2c",
    "cookie": "Cookie: session=SENTINEL5f2c; b=2",
    "userinfo": "https://me:SENTINEL5f2c@host/path",
    "userinfo with an at": "postgresql://me:SENTINEL@5f2c@host/path",
    "userinfo alone": "https://SENTINEL5f2c9e1b7a@host/path",
    "query": "https://host/?a=1&password=SENTINEL5f2c&b=2",
    "query of a key": "https://host/?api_key=SENTINEL5f2c",
    "environment": "DB_PASSWORD=SENTINEL5f2c",
    "environment with quotes": "export OPENAI_API_KEY='SENTINEL 5f2c'",
    "json": 'said {"client_secret" : "SENTINEL \\"5f2c"} and went on',
    "json with a quote in json": 'said {\\"access_token\\": \\"a\\\\\\"SENTINEL 5f2c\\"} and went on',
    "bytes": "failed: {'password': b'SENTINEL 5f2c'}",
    "object": "failed: {'password': SecretStr('SENTINEL 5f2c')}",
    "object of bytes": "failed: password=SecretBytes(b'SENTINEL 5f2c')",
    "typed": 'api_key: str | None = "SENTINEL 5f2c"',
    "in brackets": """settings["DB_PASSWORD"] = 'SENTINEL 5f2c'""",
    "arrow": "[password] => SENTINEL5f2c",
    "colon and equals": 'password := "SENTINEL 5f2c"',
    "userinfo without a password": "https://SENTINEL5f2c:@host/path",
    "json in json": 'said {\\"access_token\\": \\"SENTINEL 5f2c\\"} and went on',
}
MARKS = ("SENTINEL", "5f2c", "U0VOVElORUw", "MIIEow")
