"""The auth area over HTTP: sessions, invitations and users."""
