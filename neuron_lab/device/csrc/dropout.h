// Dropout. The mask comes from the CPU's default generator and the values are those of CPU dropout, bit for bit.
#pragma once

namespace neuron_lab {

void register_dropout();

}  // namespace neuron_lab
