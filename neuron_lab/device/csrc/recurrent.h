// The fused cells of LSTM and GRU, which torch takes on every device but the CPU.
#pragma once

namespace neuron_lab {

void register_recurrent();

}  // namespace neuron_lab
