#include <torch_headers.h>

#include "signatures.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "op_table.h"

namespace neuron_lab {
namespace {

struct Table {
  std::mutex mutex;
  std::deque<SignatureEntry> entries;
  std::unordered_map<uint64_t, uint32_t> by_hash;
  std::atomic<uint64_t> kernels{0};
};

Table& table() {
  static auto* instance = new Table();  // never destroyed: other threads run operators while the process exits
  return *instance;
}

// A thread's own copy of the hashes it met: open addressing, no lock. Entries are never removed.
class ThreadCache {
 public:
  uint32_t find(uint64_t hash) const {
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].hash == hash) return slots_[i].id;
      if (slots_[i].hash == 0) return kNoSignature;
    }
  }
  void insert(uint64_t hash, uint32_t id) {
    if (++used_ * 2 > mask_) grow();
    place(hash, id);
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t id = 0;
  };
  void place(uint64_t hash, uint32_t id) {
    size_t i = hash & mask_;
    while (slots_[i].hash != 0 && slots_[i].hash != hash) i = (i + 1) & mask_;
    slots_[i] = {hash, id};
  }
  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_ = std::vector<Slot>(old.size() * 2);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.hash != 0) place(slot.hash, slot.id);
    }
  }
  std::vector<Slot> slots_ = std::vector<Slot>(1024);
  size_t mask_ = 1023;
  size_t used_ = 0;
};

// The pointer outlives the cache's destructor: tensors' destructors may still run operators on an ending thread.
thread_local ThreadCache* t_cache = nullptr;
thread_local bool t_ended = false;
struct CacheOwner {
  ~CacheOwner() {
    delete t_cache;
    t_cache = nullptr;
    t_ended = true;
  }
};

ThreadCache* cache() {
  if (t_cache == nullptr && !t_ended) {
    thread_local CacheOwner owner;
    (void)owner;
    t_cache = new ThreadCache();
  }
  return t_cache;
}

void remember(uint64_t hash, uint32_t id) {
  if (ThreadCache* c = cache()) c->insert(hash, id);
}

std::string text_of(const c10::IValue& v) {
  std::ostringstream out;
  if (v.isTensor() || v.isTensorList()) return "Tensor";
  out << v;
  return out.str();
}

}  // namespace

void SignatureHasher::value(const char*, const c10::IValue& v) {
  if (v.isInt()) return mix(static_cast<uint64_t>(v.toInt()) ^ (uint64_t{1} << 60));
  if (v.isBool()) return mix(v.toBool() ? 3 : 2);
  if (v.isNone()) return mix(1);
  if (v.isDouble()) {
    uint64_t bits;
    const double d = v.toDouble();
    std::memcpy(&bits, &d, sizeof bits);
    return mix(bits ^ (uint64_t{3} << 60));
  }
  if (v.isIntList()) return ints("", v.toIntVector());
  if (v.isDoubleList()) {
    for (double d : v.toDoubleVector()) value("", d);
    return mix(7);
  }
  if (v.isBoolList()) {
    for (bool b : v.toBoolList()) mix(b ? 3 : 2);
    return mix(8);
  }
  if (v.isString()) return mix(std::hash<std::string_view>{}(v.toStringView()));
  if (v.isComplexDouble()) {
    value("", v.toComplexDouble().real());
    return value("", v.toComplexDouble().imag());
  }
  if (v.isList()) {
    const auto list = v.toListRef();
    for (const c10::IValue& item : list) value("", item);
    return mix(list.size());
  }
  mix(9);  // generators, streams, objects: not part of what is compiled
}

TensorShape shape_of(const at::TensorBase& t) {
  return {t.scalar_type(), t.sizes().vec()};
}

void SignatureDescriber::tensor(const at::TensorBase& t) {
  if (t.defined()) entry_.inputs.push_back(shape_of(t));
}

void SignatureDescriber::text(const char* name, const std::string& value) {
  if (!entry_.static_text.empty()) entry_.static_text += ", ";
  entry_.static_text += name;
  entry_.static_text += '=';
  entry_.static_text += value;
}

void SignatureDescriber::ints(const char* name, c10::IntArrayRef values) {
  std::ostringstream out;
  out << values;
  text(name, out.str());
}

void SignatureDescriber::number(const char* name, int64_t value) { text(name, std::to_string(value)); }

void SignatureDescriber::value(const char* name, const c10::IValue& v) {
  if (v.isNone() || v.isGenerator() || v.isDevice()) return;
  text(name, text_of(v));
}

uint32_t find_signature(uint64_t hash) {
  ThreadCache* c = cache();
  if (c != nullptr) {
    const uint32_t id = c->find(hash);
    if (id != kNoSignature) return id;
  }
  Table& t = table();
  uint32_t id = kNoSignature;
  {
    std::lock_guard lock(t.mutex);
    if (auto found = t.by_hash.find(hash); found != t.by_hash.end()) id = found->second;
  }
  if (id != kNoSignature) remember(hash, id);
  return id;
}

uint32_t add_signature(uint64_t hash, SignatureEntry entry, bool& is_new) {
  Table& t = table();
  uint32_t id = kNoSignature;
  {
    std::lock_guard lock(t.mutex);
    const auto [where, inserted] = t.by_hash.emplace(hash, static_cast<uint32_t>(t.entries.size()));
    is_new = inserted;
    id = where->second;
    if (inserted) {
      if (entry.compiles) t.kernels.fetch_add(1, std::memory_order_relaxed);
      t.entries.push_back(std::move(entry));
    }
  }
  remember(hash, id);
  return id;
}

void set_signature_stack(uint32_t signature, int32_t stack) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  t.entries[signature].stack = stack;
}

uint32_t signature_count() {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return static_cast<uint32_t>(t.entries.size());
}

uint64_t kernel_count() { return table().kernels.load(std::memory_order_relaxed); }

std::vector<SignatureEntry> signatures_from(uint32_t first) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  if (first >= t.entries.size()) return {};
  return std::vector<SignatureEntry>(t.entries.begin() + first, t.entries.end());
}

uint32_t graph_signature(const std::string& name, int64_t node_count) {
  SignatureHasher hasher(UINT32_MAX);
  hasher.value("", c10::IValue(name));
  SignatureEntry entry;
  entry.op = no_kernel_op("neuron::graph").id;
  entry.static_text = "name=" + name + ", nodes=" + std::to_string(node_count);
  entry.compiles = false;  // the graph's own compilation is reported by the compiler, not as an eager kernel
  bool is_new = false;
  return add_signature(hasher.result(), std::move(entry), is_new);
}

}  // namespace neuron_lab
