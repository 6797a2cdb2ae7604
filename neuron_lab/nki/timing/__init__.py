"""How long a recorded kernel takes on the modelled clock, and why.

Instructions → cycles and transfers → dependencies from the bytes they touch → a schedule at both ends of what
is known. Not modelled: how many tiles fit into SBUF at once beyond the capacity check, instruction fetch, and
other cores' traffic.
"""
