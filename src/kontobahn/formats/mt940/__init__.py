"""MT940 and MT942: statements in the text format of SWIFT, as German banks write it."""
