// The pretend chip's memory: how much HBM each pool has, who holds how much, and where the bytes really live.
// Includes no torch header: this is the vendor runtime's side of the fence.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace neuron_lab {

// Counters of one core, in bytes or counts. Read without a lock, so two fields may be from different moments.
struct CoreStats {
  std::atomic<int64_t> current_bytes{0};
  std::atomic<int64_t> peak_bytes{0};
  std::atomic<int64_t> allocated_bytes{0};  // cumulative
  std::atomic<int64_t> freed_bytes{0};      // cumulative
  std::atomic<int64_t> allocations{0};      // requests, those of zero bytes too
  std::atomic<int64_t> frees{0};
  std::atomic<int64_t> ooms{0};
  std::atomic<int64_t> live_blocks{0};
};

struct ChipConfig {
  std::vector<int> pool_of_core;
  std::vector<int64_t> pool_limit_bytes;
  std::string label;  // "trn2.3xlarge, LNC 2": appears in messages
};

void configure_chip(ChipConfig config);  // throws std::invalid_argument, std::logic_error once memory was used
bool chip_configured();
bool chip_touched();
int core_count() noexcept;
const std::string& chip_label();

// Charges `size_bytes` to the core's pool. Returns false, and counts an out-of-memory, when the pool is too small.
bool charge(int core, size_t size_bytes);
void refund(int core, size_t size_bytes) noexcept;
int64_t pool_free_bytes(int core);
int64_t pool_limit_bytes(int core);
int cores_in_pool(int core);

CoreStats& core_stats(int core);
void reset_peak(int core);
void reset_accumulated(int core);

// Host memory that backs a block. Returns nullptr when the host cannot map it. Large blocks are mapped without
// reserving swap, so that a 17 GiB tensor nobody touches costs nothing.
void* map_host_memory(size_t size_bytes) noexcept;
void unmap_host_memory(void* data, size_t size_bytes) noexcept;

}  // namespace neuron_lab
