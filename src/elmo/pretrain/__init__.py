"""Learn a biLM from text; perplexity."""
