// What is being observed. One word, one bit per feature: when all is off, reading it is all an operator pays.
#pragma once

#include <atomic>
#include <cstdint>

namespace neuron_lab {

enum Feature : uint32_t {
  kLedger = 1,    // count operators and tell new signatures from known ones
  kRecorder = 2,  // write records
  kStacks = 4,    // capture the Python stack of every operator, not only of new signatures
};

inline std::atomic<uint32_t> g_features{0};

inline uint32_t features() noexcept { return g_features.load(std::memory_order_relaxed); }

}  // namespace neuron_lab
