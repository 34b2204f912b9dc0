"""German banks by FinTS 3.0 with PIN and TAN: reading accounts for their owner, with nobody in between."""
