#include "recorder.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "chip_memory.h"
#include "clock.h"

namespace neuron_lab {
namespace {

// Single producer (the owning thread), single consumer (whoever drains, under the registry's mutex).
class Ring {
 public:
  explicit Ring(uint32_t capacity)
      : mask_(capacity - 1), records_(static_cast<Record*>(calloc(capacity, sizeof(Record)))) {
    if (records_ == nullptr) throw std::bad_alloc();
  }
  ~Ring() { free(records_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void push(const Record& record) noexcept {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) > mask_) {
      dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    records_[head & mask_] = record;
    head_.store(head + 1, std::memory_order_release);
  }
  void drain(std::vector<Record>& out) {
    const uint64_t head = head_.load(std::memory_order_acquire);
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (uint64_t i = tail; i != head; i++) out.push_back(records_[i & mask_]);
    tail_.store(head, std::memory_order_release);
  }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  uint64_t capacity() const { return mask_ + 1; }
  // For a new recording: what was left of the last one is forgotten. Only while nobody pushes or drains.
  void clear() {
    head_.store(0);
    tail_.store(0);
    dropped_.store(0);
  }

 private:
  const uint64_t mask_;
  Record* const records_;  // calloc: pages nobody writes cost nothing
  alignas(64) std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> dropped_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
};

constexpr size_t kCounterCount = sizeof(Counters) / sizeof(uint64_t);

// Written by one thread, read by any: a relaxed load and store, which costs no locked instruction.
struct ThreadCounters {
  std::atomic<uint64_t> values[kCounterCount] = {};
  void add(size_t index, uint64_t amount) noexcept {
    values[index].store(values[index].load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
};

struct ThreadState {
  uint32_t thread = 0;
  ThreadCounters counters;
  std::unique_ptr<Ring> ring;
  uint64_t session = 0;  // the recording the ring belongs to
  bool ended = false;
};

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<ThreadState>> threads;
  uint64_t ended_counters[kCounterCount] = {};
  uint64_t ended_dropped = 0;
  std::atomic<uint64_t> session{0};
  std::atomic<uint32_t> capacity{131072};
};

Registry& registry() {
  static auto* instance = new Registry();  // never destroyed: other threads record while the process exits
  return *instance;
}

thread_local ThreadState* t_state = nullptr;
thread_local bool t_ended = false;

void forget(Registry& r, ThreadState* state) {
  for (size_t i = 0; i < kCounterCount; i++) r.ended_counters[i] += state->counters.values[i].load();
  if (state->ring && state->session == r.session.load()) r.ended_dropped += state->ring->dropped();
  std::erase_if(r.threads, [state](const auto& held) { return held.get() == state; });
}

// A thread's records must outlive it until they are drained, so an ending thread only marks its state.
struct StateOwner {
  ~StateOwner() {
    ThreadState* state = t_state;
    t_state = nullptr;
    t_ended = true;
    if (state == nullptr) return;
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    state->ended = true;
    if (state->ring == nullptr) forget(r, state);
  }
};

ThreadState* thread_state() noexcept {
  if (t_state != nullptr) return t_state;
  if (t_ended) return nullptr;
  thread_local StateOwner owner;
  (void)owner;
  auto state = std::make_unique<ThreadState>();
  state->thread = static_cast<uint32_t>(syscall(SYS_gettid));
  t_state = state.get();
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.threads.push_back(std::move(state));
  return t_state;
}

Ring* ring_of(ThreadState* state) noexcept {
  Registry& r = registry();
  if (state->session == r.session.load(std::memory_order_acquire)) return state->ring.get();
  std::lock_guard lock(r.mutex);
  if (state->ring != nullptr && state->ring->capacity() == r.capacity.load()) {
    state->ring->clear();  // its pages are there already
  } else {
    state->ring.reset(new (std::nothrow) Ring(r.capacity.load()));
  }
  state->session = r.session.load();
  return state->ring.get();
}

uint32_t power_of_two(uint32_t at_least) {
  uint32_t value = 64;
  while (value < at_least && value < (1u << 30)) value *= 2;
  return value;
}

}  // namespace

void recorder_start(bool stacks, uint32_t capacity) {
  Registry& r = registry();
  {
    std::lock_guard lock(r.mutex);
    r.capacity.store(power_of_two(capacity));
    r.ended_dropped = 0;
    r.session.fetch_add(1, std::memory_order_release);
    std::erase_if(r.threads, [&r](const auto& state) {
      if (!state->ended) return false;
      for (size_t i = 0; i < kCounterCount; i++) r.ended_counters[i] += state->counters.values[i].load();
      return true;
    });
  }
  g_features.fetch_and(~uint32_t{kStacks});
  g_features.fetch_or(kRecorder | (stacks ? kStacks : 0));
}

void recorder_stop() { g_features.fetch_and(~uint32_t{kRecorder | kStacks}); }

std::vector<Record> recorder_drain() {
  Registry& r = registry();
  std::vector<Record> out;
  std::lock_guard lock(r.mutex);
  const uint64_t session = r.session.load();
  std::vector<ThreadState*> finished;
  for (auto& state : r.threads) {
    if (state->ring && state->session == session) state->ring->drain(out);
    if (state->ended) finished.push_back(state.get());
  }
  for (ThreadState* state : finished) forget(r, state);
  return out;
}

uint64_t recorder_dropped() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  uint64_t total = r.ended_dropped;
  for (const auto& state : r.threads) {
    if (state->ring && state->session == r.session.load()) total += state->ring->dropped();
  }
  return total;
}

uint64_t next_correlation() noexcept {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void write_record(Record record) noexcept {
  ThreadState* state = thread_state();
  if (state == nullptr) return;
  record.thread = state->thread;
  if (Ring* ring = ring_of(state)) ring->push(record);
}

void count(uint64_t Counters::* which, uint64_t amount) noexcept {
  ThreadState* state = thread_state();
  if (state == nullptr) return;
  static const Counters origin;
  const auto index = static_cast<size_t>(&(origin.*which) - reinterpret_cast<const uint64_t*>(&origin));
  state->counters.add(index, amount);
}

Counters counters() {
  Registry& r = registry();
  Counters total;
  auto* values = reinterpret_cast<uint64_t*>(&total);
  std::lock_guard lock(r.mutex);
  for (size_t i = 0; i < kCounterCount; i++) {
    values[i] = r.ended_counters[i];
    for (const auto& state : r.threads) values[i] += state->counters.values[i].load(std::memory_order_relaxed);
  }
  return total;
}

void write_memory_record(RecordKind kind, int core, uint64_t size_bytes) noexcept {
  Record record;
  record.start_ns = record.end_ns = now_ns();
  record.size_bytes = static_cast<int64_t>(size_bytes);
  record.allocated_bytes = current_bytes(core);
  record.core = static_cast<int16_t>(core);
  record.kind = kind;
  write_record(record);
}

}  // namespace neuron_lab
