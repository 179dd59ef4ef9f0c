"""What runs on a device: the runner contract, the referee engine, runtimes and models."""
