// What torch asks of a device outside its own list: is it there, its generators, pinned host memory, storage resizing.
#include <torch_headers.h>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <set>

#include "allocator.h"
#include "chip_memory.h"
#include "generator.h"

namespace neuron_lab {
namespace {

// Pinned memory is ordinary host memory whose address is remembered.
struct PinnedBlocks {
  std::mutex mutex;
  std::set<std::pair<uintptr_t, uintptr_t>> ranges;  // [begin, end)
  at::HostStats stats;
};

PinnedBlocks& pinned() {
  static auto* blocks = new PinnedBlocks();  // never destroyed: DataLoader threads free pinned memory at exit
  return *blocks;
}

struct PinnedBlock {
  c10::DataPtr memory;
  uintptr_t begin;
  uintptr_t end;
};

void release_pinned(void* context) {
  auto* block = static_cast<PinnedBlock*>(context);
  {
    PinnedBlocks& p = pinned();
    std::lock_guard lock(p.mutex);
    p.ranges.erase({block->begin, block->end});
  }
  delete block;
}

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t size_bytes) override {
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(size_bytes);
    void* data = memory.get();
    if (data == nullptr) return memory;
    const auto begin = reinterpret_cast<uintptr_t>(data);
    auto* block = new PinnedBlock{std::move(memory), begin, begin + size_bytes};
    PinnedBlocks& p = pinned();
    std::lock_guard lock(p.mutex);
    p.ranges.insert({block->begin, block->end});
    return c10::DataPtr(data, block, &release_pinned, c10::Device(c10::kCPU));
  }
  void copy_data(void* dest, const void* src, std::size_t count) const override { default_copy_data(dest, src, count); }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return pinned().stats; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

PinnedAllocator* pinned_allocator() {
  static auto* allocator = new PinnedAllocator();
  return allocator;
}

bool is_pinned(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  PinnedBlocks& p = pinned();
  std::lock_guard lock(p.mutex);
  auto after = p.ranges.upper_bound({address, UINTPTR_MAX});
  if (after == p.ranges.begin()) return false;
  --after;
  return address >= after->first && address < after->second;
}

struct NeuronHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return core_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return core_count() > 0; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override {
    const int count = core_count();
    return static_cast<c10::DeviceIndex>(count > 127 ? 127 : count);
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchange_device(device);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Device getDeviceFromPtr(void*) const override { return core_device(current_device()); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device < 0 ? current_device() : device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    const c10::DeviceIndex index = device < 0 ? current_device() : device;
    check_index(index);
    return at::make_generator<NeuronGenerator>(index);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size_bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), size_bytes);
  }
};

struct RegisterHooks {
  RegisterHooks() {
    at::RegisterPrivateUse1HooksInterface(new NeuronHooks());  // never destroyed
    at::setHostAllocator(kNeuron, pinned_allocator());
  }
} const g_register_hooks;

}  // namespace
}  // namespace neuron_lab
