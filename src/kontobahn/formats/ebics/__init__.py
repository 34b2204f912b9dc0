"""EBICS on the wire: keys, envelopes, signatures and order data of versions 3.0 (H005) and 2.5 (H004). Nothing here reaches a bank."""
