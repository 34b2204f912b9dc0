"""Transport tickets: entered by call, by file or by a platform, billed once, cancelled."""
