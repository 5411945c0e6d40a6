"""The network: a file is a box of the figure in the paper."""
