"""The auth area over HTTP: sessions, invitations and users, one module each, with what crosses the wire beside the handlers.

The rules and the SQL are in `access/`.
"""

# Choice 32: everything here lives under /v2/auth/ and is limited by address.
