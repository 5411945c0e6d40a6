"""Questions whose answer is a span of a paragraph (Rajpurkar et al., 2016)."""
