"""The banking area: accounts, their transactions and payments, reached through connections."""
