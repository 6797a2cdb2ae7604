"""What the magics need from IPython: arming a cell, its label, its options, its display.

Nothing here measures or analyses anything; that is the session's work.
"""
