"""Target of the `torch_dynamo_backends` entry point: forwards to the emulated device's compiler."""

from neuron_lab.compiler.backend import neuron_backend

__all__ = ["neuron_backend"]
