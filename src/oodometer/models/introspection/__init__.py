"""Features, gradients and Jacobians of torch networks."""
