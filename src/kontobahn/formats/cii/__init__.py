"""Electronic invoices by EN 16931 in the CII syntax, and the rules Germany adds to them. Knows no area and no tickets."""

from kontobahn.formats.cii.terms import NAMESPACES
from kontobahn.formats.cii.writer import GUIDELINES, Profile, profile_of, write
from kontobahn.formats.invoices.model import Invoice

__all__ = ["GUIDELINES", "NAMESPACES", "Invoice", "Profile", "profile_of", "write"]
