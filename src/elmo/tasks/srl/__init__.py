"""Semantic roles: who did what to whom, as spans, for every predicate of a sentence."""
