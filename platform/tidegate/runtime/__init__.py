"""What engine code is given: the context, owners, leases, steps that fail alone, results."""
