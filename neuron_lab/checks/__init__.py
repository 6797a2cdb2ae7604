"""Will it run on Trainium? A run in a child process under a profile, told on one screen; and a gate for tests.

Importing this package imports no torch.
"""
