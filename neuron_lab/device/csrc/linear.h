// `linear_backward`, which no CPU kernel serves.
#pragma once

namespace neuron_lab {

void register_linear();

}  // namespace neuron_lab
