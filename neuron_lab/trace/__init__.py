"""The waist of the hourglass: one typed event table between those who record and those who show.

Imports neither torch nor Jupyter: a saved trace opens on any machine.
"""
