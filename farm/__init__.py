"""Many devices: inventory, leases, plan, controller, tasks, store."""
