// The pretend chip's memory: how much HBM each pool has, who holds how much, and where the bytes really live.
// Includes no torch header: this is the vendor runtime's side of the fence.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace neuron_lab {

// Running totals of one core. Three locked additions per allocation and three per free: what is held now is a
// difference, and a reset keeps a base to subtract instead of disturbing the totals.
struct CoreTotals {
  std::atomic<int64_t> allocated_bytes{0};
  std::atomic<int64_t> freed_bytes{0};
  std::atomic<int64_t> requests{0};        // those of zero bytes too
  std::atomic<int64_t> empty_requests{0};
  std::atomic<int64_t> frees{0};
  std::atomic<int64_t> ooms{0};
  std::atomic<int64_t> peak_bytes{0};
};

// What is shown. Fields are read one after another, so under load two may be of different moments.
struct CoreStats {
  int64_t current_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t allocated_bytes = 0;  // since the last reset, like the three below
  int64_t freed_bytes = 0;
  int64_t requests = 0;
  int64_t frees = 0;
  int64_t ooms = 0;
  int64_t live_blocks = 0;
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

CoreStats core_stats(int core);
int64_t current_bytes(int core) noexcept;
void count_oom(int core) noexcept;
void reset_peak(int core);
void reset_accumulated(int core);

// Host memory that backs a block. Returns nullptr when the host cannot map it. Large blocks are mapped without
// reserving swap, so that a 17 GiB tensor nobody touches costs nothing.
void* map_host_memory(size_t size_bytes) noexcept;
void unmap_host_memory(void* data, size_t size_bytes) noexcept;

}  // namespace neuron_lab
