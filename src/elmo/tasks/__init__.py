"""Task models with and without ELMo: a folder is a task, a file beside is shared by several."""
