"""Adapters of the ticket port. Only the composition root, the command line and the demo may name one."""
