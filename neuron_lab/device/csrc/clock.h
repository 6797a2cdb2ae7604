// The one clock of records: CLOCK_MONOTONIC in nanoseconds, the same that Python's time.monotonic_ns() reads.
#pragma once

#include <time.h>

#include <cstdint>

namespace neuron_lab {

inline int64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace neuron_lab
