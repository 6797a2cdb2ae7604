"""Facts about Neuron chips and instances, and the cost model built on them. Knows nothing of torch."""
