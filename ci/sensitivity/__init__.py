"""The sensitivity pilot: faults applied by execution, healthy engines beside them, and what each judge says of both."""
