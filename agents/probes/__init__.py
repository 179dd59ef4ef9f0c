"""One file per reading of a device."""
