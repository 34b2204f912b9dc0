"""The service on several machines, with every part killed in turn: see `__main__`."""
