"""What every encode and decode shares: losses, settings, marks, placeholders, and histories made legal."""
