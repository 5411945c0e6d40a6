"""What does each layer of an encoder know? A file is a probe, or what several share."""
