"""One profiled NKI kernel as people read it: text, HTML with a timeline, and trace files.

It reads what `neuron_lab.nki.timing` has modelled, and knows nothing of Jupyter.
"""
