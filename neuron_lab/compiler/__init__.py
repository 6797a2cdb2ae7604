"""The `neuron` backend of torch.compile and the observer of compilation.

Importing this package imports neither TorchDynamo nor the device; each module does so when it is used.
"""
