"""The functions of `torch.neuron`, one small module per subject; `neuron` gathers them.

They follow the documented behaviour of the real device (Neuron SDK 2.33 documentation; TorchNeuron source of
April 2026) and, where those are silent, what Hugging Face libraries call.
"""
