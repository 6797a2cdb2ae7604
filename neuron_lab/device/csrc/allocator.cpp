#include <torch_headers.h>

#include "allocator.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>

#include "chip_memory.h"
#include "recorder.h"

namespace neuron_lab {
namespace {

// The context is the storage's twin, with one reference that belongs to the data pointer.
void release_twin(void* context) {
  auto* twin = static_cast<TwinStorage*>(context);
  twin->owner = nullptr;
  if (twin->charged_bytes != 0) {
    refund(twin->core, twin->charged_bytes);
    record_memory(RecordKind::kFree, twin->core, twin->charged_bytes);
    twin->charged_bytes = 0;
  }
  c10::intrusive_ptr<TwinStorage>::reclaim(twin);
}

struct HostBlock {
  void* data;
  size_t size_bytes;
};

void release_block(void* context) {
  auto* block = static_cast<HostBlock*>(context);
  unmap_host_memory(block->data, block->size_bytes);
  delete block;
}

[[noreturn]] void raise_out_of_memory(c10::DeviceIndex core, size_t size_bytes) {
  const int64_t limit = pool_limit_bytes(core);
  const int64_t free_bytes = pool_free_bytes(core);
  const int sharing = cores_in_pool(core);
  TORCH_CHECK(false, "NRT allocation failed for size ", size_bytes, " (OOM): asked ", size_bytes, " bytes on neuron:",
              static_cast<int>(core), ", free ", free_bytes, ", limit ", limit, " bytes of HBM",
              sharing > 1 ? " (shared by " + std::to_string(sharing) + " cores)" : std::string(" per core"), ", held ",
              limit - free_bytes, " [", chip_label(),
              "]. Free tensors, use a smaller batch or dtype, or spread the model over more cores.");
}

void charge_or_raise(c10::DeviceIndex core, size_t size_bytes) {
  if (!charge(core, size_bytes)) raise_out_of_memory(core, size_bytes);
  if (size_bytes != 0) record_memory(RecordKind::kAlloc, core, size_bytes);
}

c10::DataPtr host_block(size_t size_bytes) {
  if (size_bytes == 0) return c10::DataPtr(nullptr, c10::Device(c10::kCPU));
  void* data = map_host_memory(size_bytes);
  TORCH_CHECK(data != nullptr, "the emulated device needs host memory for its tensors, and this host refused to map ",
              size_bytes, " bytes. That is the limit of this machine (host memory), not of the device's HBM.");
  return c10::DataPtr(data, new HostBlock{data, size_bytes}, &release_block, c10::Device(c10::kCPU));
}

c10::intrusive_ptr<TwinStorage> make_twin(c10::DataPtr data, size_t size_bytes, c10::DeviceIndex core) {
  charge_or_raise(core, size_bytes);
  auto twin = c10::make_intrusive<TwinStorage>(std::move(data), size_bytes, core);
  twin->charged_bytes = size_bytes;
  return twin;
}

c10::DataPtr device_pointer(c10::intrusive_ptr<TwinStorage> twin) {
  void* data = twin->mutable_data();
  const c10::DeviceIndex index = twin->core;
  return c10::DataPtr(data, twin.release(), &release_twin, core_device(index));
}

c10::DataPtr allocate_on(c10::DeviceIndex core, size_t size_bytes) {
  check_room(core, size_bytes);
  return device_pointer(make_twin(host_block(size_bytes), size_bytes, core));
}

struct NeuronAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t size_bytes) override {
    const c10::DeviceIndex index = current_device();
    check_index(index);
    return allocate_on(index, size_bytes);
  }
  void copy_data(void* dest, const void* src, std::size_t count) const override { std::memcpy(dest, src, count); }
  bool initialized() override { return core_count() > 0; }
  void emptyCache(c10::MempoolId_t) override {}  // nothing is cached: freed memory returns at once
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // work is finished when a call returns

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    check_index(device);
    const CoreStats from = core_stats(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& bytes = stats.allocated_bytes[0];  // 0 is the aggregate of all pools
    bytes.current = from.current_bytes;
    bytes.peak = from.peak_bytes;
    bytes.allocated = from.allocated_bytes;
    bytes.freed = from.freed_bytes;
    stats.reserved_bytes = stats.allocated_bytes;
    stats.active_bytes = stats.allocated_bytes;
    stats.requested_bytes = stats.allocated_bytes;
    stats.allocation[0].current = from.live_blocks;
    stats.allocation[0].allocated = from.requests;
    stats.allocation[0].freed = from.frees;
    stats.num_ooms = from.ooms;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    check_index(device);
    reset_accumulated(device);
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    check_index(device);
    reset_peak(device);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check_index(device);
    return {static_cast<size_t>(std::max<int64_t>(pool_free_bytes(device), 0)),
            static_cast<size_t>(pool_limit_bytes(device))};
  }
};

struct RegisterAllocator {
  RegisterAllocator() { c10::SetAllocator(kNeuron, device_allocator()); }
} const g_register_allocator;

}  // namespace

TwinStorage::TwinStorage(c10::DataPtr data, size_t size_bytes, c10::DeviceIndex on_core)
    : c10::StorageImpl(use_byte_size_t(), static_cast<int64_t>(size_bytes), std::move(data), c10::GetCPUAllocator(),
                       /*resizable=*/true),
      core(on_core) {}

c10::DeviceAllocator* device_allocator() {
  static auto* instance = new NeuronAllocator();  // never destroyed: storages point to it until the very end
  return instance;
}

TwinStorage* twin_of(c10::StorageImpl* storage) noexcept {
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (data.get_deleter() != &release_twin) return nullptr;
  auto* twin = static_cast<TwinStorage*>(data.get_context());
  if (twin != nullptr) twin->owner = storage;
  return twin;
}

void check_room(c10::DeviceIndex core, size_t size_bytes) {
  if (static_cast<int64_t>(size_bytes) > pool_free_bytes(core)) {
    count_oom(core);
    raise_out_of_memory(core, size_bytes);
  }
}

void adopt(c10::StorageImpl* storage, c10::DeviceIndex core) {
  const size_t size_bytes = storage->nbytes();
  auto twin = make_twin(c10::DataPtr(nullptr, c10::Device(c10::kCPU)), size_bytes, core);
  twin->owner = storage;
  twin->set_data_ptr_noswap(std::move(storage->_mutable_data_ptr_no_checks()));
  storage->set_data_ptr_noswap(device_pointer(std::move(twin)));
  storage->set_allocator(device_allocator());
  storage->set_resizable(true);
}

c10::Storage device_storage_over(const c10::intrusive_ptr<c10::StorageImpl>& cpu, c10::DeviceIndex core) {
  const auto drop = [](void* held) { c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(held)); };
  auto held = cpu;
  c10::DataPtr data(cpu->mutable_data(), held.release(), drop, c10::Device(c10::kCPU));
  auto twin = make_twin(std::move(data), cpu->nbytes(), core);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                       static_cast<int64_t>(twin->nbytes()), device_pointer(twin),
                                                       device_allocator(), /*resizable=*/true);
  twin->owner = storage.get();
  return c10::Storage(std::move(storage));
}

void reseat(c10::StorageImpl* owner, TwinStorage* twin) {
  const size_t size_bytes = twin->nbytes();
  if (twin->data() == owner->data() && size_bytes == owner->nbytes()) return;
  const size_t before = twin->charged_bytes;
  if (size_bytes > before) {
    charge_or_raise(twin->core, size_bytes - before);
  } else if (size_bytes < before) {
    refund(twin->core, before - size_bytes);
    record_memory(RecordKind::kFree, twin->core, before - size_bytes);
  }
  twin->charged_bytes = size_bytes;
  c10::DataPtr& old = owner->_mutable_data_ptr_no_checks();
  auto keep = c10::intrusive_ptr<TwinStorage>::reclaim(static_cast<TwinStorage*>(old.release_context()));
  owner->set_data_ptr_noswap(device_pointer(std::move(keep)));
  owner->set_nbytes(size_bytes);
}

void resize_storage(c10::StorageImpl* storage, size_t size_bytes) {
  const c10::DeviceIndex index = storage->device().index();
  c10::DataPtr fresh = allocate_on(index, size_bytes);
  const size_t kept = std::min(size_bytes, storage->nbytes());
  if (kept != 0 && storage->data() != nullptr) std::memcpy(fresh.get(), storage->data(), kept);
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(size_bytes);
}

}  // namespace neuron_lab
