#include "chip_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>

namespace neuron_lab {
namespace {

constexpr int kMaxCores = 128;
// Below this the C library's heap reuses blocks without page faults; above it a mapping of its own is cheaper than
// the risk of the kernel's overcommit heuristic refusing an allocation that is never touched.
constexpr size_t kMapThresholdBytes = size_t{64} << 20;
constexpr size_t kAlignmentBytes = 64;  // what torch's CPU kernels expect for vector loads

struct Pool {
  std::atomic<int64_t> used_bytes{0};
  int64_t limit_bytes = 0;
  int cores = 0;
};

// Never destroyed: tensors are freed by other threads while the process exits.
struct Chip {
  ChipConfig config;
  CoreTotals totals[kMaxCores];
  CoreTotals bases[kMaxCores];  // the totals at the last reset
  Pool pools[kMaxCores];
  std::atomic<int> cores{0};
  std::atomic<bool> configured{false};
  std::atomic<bool> touched{false};
};

Chip& chip() {
  static Chip* instance = new Chip();
  return *instance;
}

Pool& pool_of(int core) { return chip().pools[chip().config.pool_of_core[core]]; }

void raise_to(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void configure_chip(ChipConfig config) {
  Chip& c = chip();
  if (c.touched.load()) {
    throw std::logic_error("the device's memory was used already; its cores cannot change in this process");
  }
  if (config.pool_of_core.empty() || config.pool_of_core.size() > kMaxCores) {
    throw std::invalid_argument("a device has 1 to 128 cores, got " + std::to_string(config.pool_of_core.size()));
  }
  for (int pool : config.pool_of_core) {
    if (pool < 0 || pool >= static_cast<int>(config.pool_limit_bytes.size())) {
      throw std::invalid_argument("a core names memory pool " + std::to_string(pool) + ", which has no limit");
    }
  }
  for (int i = 0; i < kMaxCores; i++) c.pools[i].cores = 0;
  for (size_t i = 0; i < config.pool_limit_bytes.size(); i++) c.pools[i].limit_bytes = config.pool_limit_bytes[i];
  for (int pool : config.pool_of_core) c.pools[pool].cores++;
  c.config = std::move(config);
  c.cores.store(static_cast<int>(c.config.pool_of_core.size()));
  c.configured.store(true);
}

bool chip_configured() { return chip().configured.load(); }
bool chip_touched() { return chip().touched.load(); }
int core_count() noexcept { return chip().cores.load(std::memory_order_relaxed); }
const std::string& chip_label() { return chip().config.label; }

bool charge(int core, size_t size_bytes) {
  Chip& c = chip();
  if (!c.touched.load(std::memory_order_relaxed)) c.touched.store(true);
  CoreTotals& totals = c.totals[core];
  totals.requests.fetch_add(1, std::memory_order_relaxed);
  if (size_bytes == 0) {
    totals.empty_requests.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  const auto size = static_cast<int64_t>(size_bytes);
  Pool& pool = pool_of(core);
  const int64_t used = pool.used_bytes.fetch_add(size, std::memory_order_relaxed) + size;
  if (used > pool.limit_bytes) {
    pool.used_bytes.fetch_sub(size, std::memory_order_relaxed);
    totals.empty_requests.fetch_add(1, std::memory_order_relaxed);  // a request that left no block behind
    count_oom(core);
    return false;
  }
  const int64_t allocated = totals.allocated_bytes.fetch_add(size, std::memory_order_relaxed) + size;
  raise_to(totals.peak_bytes, allocated - totals.freed_bytes.load(std::memory_order_relaxed));
  return true;
}

void refund(int core, size_t size_bytes) noexcept {
  if (size_bytes == 0) return;
  CoreTotals& totals = chip().totals[core];
  const auto size = static_cast<int64_t>(size_bytes);
  pool_of(core).used_bytes.fetch_sub(size, std::memory_order_relaxed);
  totals.freed_bytes.fetch_add(size, std::memory_order_relaxed);
  totals.frees.fetch_add(1, std::memory_order_relaxed);
}

void count_oom(int core) noexcept { chip().totals[core].ooms.fetch_add(1, std::memory_order_relaxed); }

int64_t current_bytes(int core) noexcept {
  const CoreTotals& totals = chip().totals[core];
  const int64_t freed = totals.freed_bytes.load(std::memory_order_relaxed);  // first, so the result is never negative
  return totals.allocated_bytes.load(std::memory_order_relaxed) - freed;
}

int64_t pool_free_bytes(int core) {
  Pool& pool = pool_of(core);
  return pool.limit_bytes - pool.used_bytes.load(std::memory_order_relaxed);
}

int64_t pool_limit_bytes(int core) { return pool_of(core).limit_bytes; }
int cores_in_pool(int core) { return pool_of(core).cores; }

CoreStats core_stats(int core) {
  const CoreTotals& totals = chip().totals[core];
  const CoreTotals& base = chip().bases[core];
  CoreStats out;
  out.current_bytes = current_bytes(core);
  out.peak_bytes = std::max(totals.peak_bytes.load(), out.current_bytes);
  out.allocated_bytes = totals.allocated_bytes - base.allocated_bytes;
  out.freed_bytes = totals.freed_bytes - base.freed_bytes;
  out.requests = totals.requests - base.requests;
  out.frees = totals.frees - base.frees;
  out.ooms = totals.ooms - base.ooms;
  out.live_blocks = totals.requests - totals.empty_requests - totals.frees;
  return out;
}

void reset_peak(int core) { chip().totals[core].peak_bytes.store(current_bytes(core)); }

void reset_accumulated(int core) {
  const CoreTotals& totals = chip().totals[core];
  CoreTotals& base = chip().bases[core];
  base.allocated_bytes.store(totals.allocated_bytes);
  base.freed_bytes.store(totals.freed_bytes);
  base.requests.store(totals.requests);
  base.frees.store(totals.frees);
  base.ooms.store(totals.ooms);
}

void* map_host_memory(size_t size_bytes) noexcept {
  if (size_bytes == 0) return nullptr;
  if (size_bytes >= kMapThresholdBytes) {
    void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? nullptr : data;
  }
  void* data = nullptr;
  return posix_memalign(&data, kAlignmentBytes, size_bytes) == 0 ? data : nullptr;
}

void unmap_host_memory(void* data, size_t size_bytes) noexcept {
  if (data == nullptr) return;
  if (size_bytes >= kMapThresholdBytes) {
    munmap(data, size_bytes);
  } else {
    free(data);
  }
}

}  // namespace neuron_lab
