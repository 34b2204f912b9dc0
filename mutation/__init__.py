"""Plants small faults in important modules, one at a time, and tells which of them no test notices (docs/testing.md)."""
