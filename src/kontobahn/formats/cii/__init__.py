"""Electronic invoices by EN 16931 in the CII syntax, and the rules Germany adds to them. Knows no area and no tickets."""

from kontobahn.formats.cii.invoice import Invoice
from kontobahn.formats.cii.writer import GUIDELINES, NAMESPACES, Profile, profile_of, write

__all__ = ["GUIDELINES", "NAMESPACES", "Invoice", "Profile", "profile_of", "write"]
