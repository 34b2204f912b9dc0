"""The webhook URL and the log of events, over HTTP."""
