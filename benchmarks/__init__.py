"""Benchmarks: each prints a ratio against the plain alternative, measured in the same run. None is a test."""
