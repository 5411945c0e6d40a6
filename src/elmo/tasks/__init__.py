"""What is done with the vectors: a folder is a task, a file beside them is shared by several."""
