"""The built-in provider: Kontobahn's own double-entry books. SQL and the rules of bookkeeping; no HTTP, no charge."""
