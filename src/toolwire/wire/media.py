"""Media inside text: data URLs, both ways, without touching the data."""


def split_data_url(url: str) -> tuple[str | None, str | None]:
    """Split a base64 data URL into media type and data; anything else gives (None, None)."""
    if not url.startswith("data:"):
        return None, None
    head, mark, data = url[5:].partition(";base64,")
    return (head, data) if mark and ";" not in head and "," not in head else (None, None)


def data_url(data: str, media_type: str | None, default: str) -> str:
    """Join media type and data to a data URL."""
    return f"data:{default if media_type is None else media_type};base64,{data}"
