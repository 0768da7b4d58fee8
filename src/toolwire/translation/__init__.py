"""Translation of whole bodies, streams and errors between dialects, and the codec of tools, calls and results."""
