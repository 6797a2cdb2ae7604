// Records of what the device did: one fixed struct each, in a ring per thread that only this thread writes.
// A full ring drops the newest record and counts it. Safe without the GIL and from threads torch owns.
#pragma once

#include <cstdint>
#include <vector>

#include "features.h"

namespace neuron_lab {

enum class RecordKind : uint8_t {
  kOperator = 0,
  kCopyToDevice = 1,
  kCopyToHost = 2,
  kCopyOnDevice = 3,  // between two cores
  kAlloc = 4,
  kFree = 5,
  kGraph = 6,
  kUserRange = 7,
};

enum RecordFlag : uint8_t { kNewKernel = 1, kFallback = 2, kRaised = 4 };

constexpr uint32_t kNoStack = UINT32_MAX;

struct Record {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint64_t correlation = 0;
  int64_t size_bytes = 0;       // copies, allocations, and what a fallback moves
  int64_t allocated_bytes = 0;  // of the core, after the event; allocations and frees
  uint32_t signature = UINT32_MAX;
  uint32_t thread = 0;  // the operating system's thread id
  uint32_t stack = kNoStack;
  int16_t core = -1;
  int16_t stream = 0;
  RecordKind kind = RecordKind::kOperator;
  uint8_t flags = 0;
  uint8_t padding[6] = {};
};
static_assert(sizeof(Record) == 64);

struct Counters {
  uint64_t operators = 0;
  uint64_t fallbacks = 0;
  uint64_t fallback_bytes = 0;
  uint64_t eager_kernel_hits = 0;
  uint64_t copies_to_device = 0;
  uint64_t copies_to_host = 0;
  uint64_t copies_on_device = 0;
  uint64_t copy_bytes = 0;
  uint64_t graphs = 0;
};

void recorder_start(bool stacks, uint32_t capacity);
void recorder_stop();
std::vector<Record> recorder_drain();
uint64_t recorder_dropped();  // since the last start

uint64_t next_correlation() noexcept;
void write_record(Record record) noexcept;  // fills in the thread
// Adds `amount` to a counter of this thread.
void count(uint64_t Counters::* which, uint64_t amount = 1) noexcept;
Counters counters();  // of all threads, ended ones too

void write_memory_record(RecordKind kind, int core, uint64_t size_bytes) noexcept;
inline void record_memory(RecordKind kind, int core, uint64_t size_bytes) noexcept {
  if (features() & kRecorder) write_memory_record(kind, core, size_bytes);
}

}  // namespace neuron_lab
