"""Electronic invoices by EN 16931 in the CII syntax, and the rules Germany adds to them."""

from kontobahn.formats.cii.writer import GUIDELINES, NAMESPACES, Profile, profile_of, write

__all__ = ["GUIDELINES", "NAMESPACES", "Profile", "profile_of", "write"]
