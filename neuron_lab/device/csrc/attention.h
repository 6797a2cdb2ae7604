// Scaled dot product attention under the name the device serves it: one fused operator, forward and backward.
#pragma once

namespace neuron_lab {

void register_attention();

}  // namespace neuron_lab
