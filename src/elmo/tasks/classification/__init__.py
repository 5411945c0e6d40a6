"""Text classification: one label or several for a text."""
