"""HTTP. An endpoint is one declared function; keys, limits, charges, errors and documentation follow from its declaration.

What an endpoint does is up to the areas above; nothing here knows one.
"""
