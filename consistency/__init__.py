"""Numbers only: arrays and small records in, frozen results out; no files, no clock, no network."""
