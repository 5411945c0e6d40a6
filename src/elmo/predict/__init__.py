"""What a biLM with its softmax says of words: how surprising, what else could be there."""
