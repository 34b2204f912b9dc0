"""Upstreams that tests cannot reach, played on loopback from their published descriptions."""
