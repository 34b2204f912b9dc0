"""The banking area: connections, accounts, transactions, payments, and the events about them."""
