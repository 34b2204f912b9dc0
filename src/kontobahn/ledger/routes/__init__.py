"""The calls of the ledger, a module for each beginning of their paths: /v2/ledger-duo, /v2/ledger-rewe, /v2/ledger-rewe-read."""
