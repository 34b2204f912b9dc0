"""Access: organisations, users, sessions, invitations, API keys and agency scope, and the log of every change to them.

Plain functions on a transaction, called by HTTP and the command line alike. Nothing here knows of a request.
"""
