"""A bank that speaks EBICS 3.0 (H005) and 2.5 (H004), on loopback.

It is written from the standard and shares no code with the client that it is there to test.
"""

from simulators.ebics_bank.bank import EbicsBank
from simulators.ebics_bank.breaks import Break
from simulators.ebics_bank.server import Line

__all__ = ["Break", "EbicsBank", "Line"]
