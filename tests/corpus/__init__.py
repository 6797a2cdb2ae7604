"""Code that breaks graphs, recompiles, or needs kernels, and code that only looks as if it did."""
