"""What every encode and decode shares: losses, settings, parts, calls, tools, endings, errors, legal histories."""
