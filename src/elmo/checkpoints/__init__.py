"""Models on disk: a file is a format."""
