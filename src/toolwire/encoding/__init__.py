"""What every encode and decode shares: losses, settings, parts, calls, tools, endings, errors, and histories made legal."""
