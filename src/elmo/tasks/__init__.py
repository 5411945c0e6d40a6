"""Task models with and without ELMo: a folder is a task, a file beside them is shared by some."""
