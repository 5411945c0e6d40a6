"""One contextual vector per word: ELMo on current PyTorch."""
