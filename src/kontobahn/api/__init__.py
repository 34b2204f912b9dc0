"""The HTTP seam. An endpoint is one declared function; keys, limits, charges, errors and documentation follow from it."""
