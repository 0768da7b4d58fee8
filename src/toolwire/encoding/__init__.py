"""Code that every dialect uses to encode and decode: losses, settings, parts, calls, tools, errors and histories."""
