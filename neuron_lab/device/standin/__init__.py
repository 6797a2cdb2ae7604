"""A stand-in for `torch_neuronx`, so that libraries which look for it find the emulated device.

`finder` serves the package in `torch_neuronx/` and its distribution metadata while the emulated device is
active.
"""
