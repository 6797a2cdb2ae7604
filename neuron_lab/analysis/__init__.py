"""Answers from a trace: each function takes a `Trace` and returns a frozen result. No torch, no drawing.

Where a trace holds no reading the answer is None, never 0.
"""
