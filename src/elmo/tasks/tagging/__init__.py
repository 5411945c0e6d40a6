"""Tagging: a tag for each token, which may write spans (named entities) or not (POS)."""
