"""The command line: a file is a sub-command."""
