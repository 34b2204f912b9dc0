"""Who may act: organisations, users, sessions, invitations, API keys and agency scope, and the log of every change to them.

Plain functions on a transaction. HTTP and the command line are two callers of the same doors.
"""
