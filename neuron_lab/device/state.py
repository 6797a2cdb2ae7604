"""What is active in this process: activation writes it, the `torch.neuron` functions read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuron_lab.device.info import DeviceInfo
    from neuron_lab.device.topology import Topology


@dataclass
class State:
    """`topology` stays after a deactivation: the renamed key and its tensors live as long as the process."""

    topology: Topology | None = None
    info: DeviceInfo | None = None
    runtime_initialized: bool = False
    in_bad_fork: bool = False


STATE = State()
