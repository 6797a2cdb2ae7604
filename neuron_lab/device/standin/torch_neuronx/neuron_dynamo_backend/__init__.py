"""The `torch.compile` backend under the name the real package gives it."""

from torch_neuronx.neuron_dynamo_backend.backend import neuron_backend

__all__ = ["neuron_backend"]
