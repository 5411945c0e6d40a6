"""Coreference: which spans of a document speak of the same thing."""
