// The operators without which a tensor cannot exist: allocation, strided views, copies, scalar reads, resize and set.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace neuron_lab {

at::Tensor empty_on_core(c10::DeviceIndex core, c10::IntArrayRef size, c10::ScalarType dtype,
                         std::optional<c10::MemoryFormat> memory_format = std::nullopt);

void register_minimal();

}  // namespace neuron_lab
