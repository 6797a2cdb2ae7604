// The user's named ranges (torch.profiler.record_function) as records, while the recorder runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace neuron_lab {

void user_ranges_start();
void user_ranges_stop();
// Names in the order they were first used; a range's record carries the index in `signature`.
std::vector<std::string> user_range_names(uint32_t first);

}  // namespace neuron_lab
