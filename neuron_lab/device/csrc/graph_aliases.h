// For compiled graphs: aliases are made once per call, the graph runs on the CPU, and its results come back.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace neuron_lab {

// CPU aliases that share the originals' version counters. CPU tensors pass through.
std::vector<at::Tensor> aliases_of(const std::vector<at::Tensor>& tensors);

// Device tensors for what a graph returned. An alias, or a view of one, comes back as a tensor over the original's
// storage; fresh tensors are relabelled without a copy and charged to the core; device tensors pass through.
std::vector<at::Tensor> wrap_outputs(const std::vector<at::Tensor>& tensors, int core);

}  // namespace neuron_lab
