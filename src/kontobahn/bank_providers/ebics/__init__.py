"""EBICS behind the port: the company's own line to its bank."""
