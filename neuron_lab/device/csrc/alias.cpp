#include <torch_headers.h>

#include "alias.h"

#include <c10/core/CPUAllocator.h>

#include <vector>

namespace neuron_lab {
namespace {

// Reaches the protected fields that relabelling a tensor means writing. Never instantiated.
struct Access : c10::TensorImpl {
  // Sizes, strides, offset, dtype and flags. Not the storage and the keys, which an alias has of its own.
  static void copy_metadata(const c10::TensorImpl* from, c10::TensorImpl* to) { copy_generic_tensor_metadata(from, to); }
  static c10::Storage& storage(c10::TensorImpl* t) { return t->*(&Access::storage_); }
  static c10::DispatchKeySet& keys(c10::TensorImpl* t) { return t->*(&Access::key_set_); }
  static std::optional<c10::Device>& device(c10::TensorImpl* t) { return t->*(&Access::device_opt_); }
  static std::unique_ptr<c10::ExtraMeta>& extra_meta(c10::TensorImpl* t) { return t->*(&Access::extra_meta_); }
};

constexpr uint64_t backend_mask(c10::BackendComponent bit) {
  return uint64_t{1} << (static_cast<uint8_t>(bit) - 1);
}
constexpr uint64_t kCpuBit = backend_mask(c10::BackendComponent::CPUBit);
constexpr uint64_t kNeuronBit = backend_mask(c10::BackendComponent::PrivateUse1Bit);
const uint64_t kAutocastCpu = c10::DispatchKeySet(c10::DispatchKey::AutocastCPU).raw_repr();
const uint64_t kAutocastNeuron = c10::DispatchKeySet(c10::DispatchKey::AutocastPrivateUse1).raw_repr();

// Alias objects of this thread waiting for their next use: making one is half of what a small operator costs.
constexpr size_t kPoolSize = 32;
struct AliasPool {
  std::vector<c10::intrusive_ptr<c10::TensorImpl>> free;
};
thread_local AliasPool* t_pool = nullptr;
thread_local bool t_ended = false;
struct PoolOwner {
  ~PoolOwner() {
    AliasPool* pool = t_pool;
    t_pool = nullptr;
    t_ended = true;
    delete pool;
  }
};

AliasPool* pool() {
  if (t_pool == nullptr && !t_ended) {
    thread_local PoolOwner owner;
    (void)owner;
    t_pool = new AliasPool();
    t_pool->free.reserve(kPoolSize);
  }
  return t_pool;
}

c10::intrusive_ptr<c10::TensorImpl> blank_alias(const c10::TensorImpl* like) {
  AliasPool* p = pool();
  if (p != nullptr && !p->free.empty()) {
    auto impl = std::move(p->free.back());
    p->free.pop_back();
    return impl;
  }
  return c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU), like->dtype(),
                                              c10::Device(c10::kCPU));
}

at::Tensor make_alias(const at::Tensor& t, c10::intrusive_ptr<c10::TensorImpl> impl) {
  c10::TensorImpl* source = t.unsafeGetTensorImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(source->has_storage() && !source->is_sparse() && !source->is_sparse_compressed(),
                              "the neuron device holds strided tensors only, got layout ", t.layout());
  Access::copy_metadata(source, impl.get());
  impl->set_allow_tensor_metadata_change(true);
  Access::storage(impl.get()) = c10::Storage(twin_storage(source->unsafe_storage().unsafeGetStorageImpl()));
  Access::keys(impl.get()) = cpu_keys(source->key_set());
  Access::device(impl.get()) = c10::Device(c10::kCPU);
  return at::Tensor(std::move(impl));
}

}  // namespace

const c10::DispatchKeySet kKeysAboveKernels =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

c10::DispatchKeySet device_keys(c10::DispatchKeySet keys) {
  uint64_t raw = keys.raw_repr() | kNeuronBit | kCpuBit;
  if (raw & kAutocastCpu) raw = (raw & ~kAutocastCpu) | kAutocastNeuron;
  return c10::DispatchKeySet::from_raw_repr(raw);
}

c10::DispatchKeySet cpu_keys(c10::DispatchKeySet keys) {
  uint64_t raw = (keys.raw_repr() & ~kNeuronBit) | kCpuBit;
  if (raw & kAutocastNeuron) raw = (raw & ~kAutocastNeuron) | kAutocastCpu;
  return c10::DispatchKeySet::from_raw_repr(raw);
}

c10::DispatchKeySet dense_device_keys() {
  return c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::PrivateUse1});
}

c10::intrusive_ptr<c10::StorageImpl> twin_storage(c10::StorageImpl* storage) {
  if (TwinStorage* twin = twin_of(storage)) {
    return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(twin);
  }
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(storage->nbytes()),
      c10::DataPtr(storage->mutable_data(), c10::Device(c10::kCPU)), c10::GetCPUAllocator(), /*resizable=*/true);
}

at::Tensor cpu_alias(const at::Tensor& t) {
  return make_alias(t, blank_alias(t.unsafeGetTensorImpl()));
}

at::Tensor shared_cpu_alias(const at::Tensor& t) {
  c10::TensorImpl* source = t.unsafeGetTensorImpl();
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU), source->dtype(),
                                                   c10::Device(c10::kCPU));
  at::Tensor alias = make_alias(t, std::move(impl));
  alias.unsafeGetTensorImpl()->set_version_counter(source->version_counter());
  return alias;
}

void recycle(at::Tensor&& alias) noexcept {
  auto impl = c10::intrusive_ptr<c10::TensorImpl>::reclaim(alias.unsafeReleaseTensorImpl());
  if (impl.use_count() != 1 || impl->pyobj_slot()->load_pyobj() != nullptr || impl->autograd_meta() != nullptr) return;
  AliasPool* p = pool();
  if (p == nullptr || p->free.size() >= kPoolSize) return;
  Access::storage(impl.get()) = c10::Storage();
  Access::extra_meta(impl.get()).reset();
  p->free.push_back(std::move(impl));
}

void label_as_device(c10::TensorImpl* t, c10::DeviceIndex core) {
  Access::keys(t) = device_keys(t->key_set());
  Access::device(t) = core_device(core);
}

void replace_storage(c10::TensorImpl* t, c10::Storage storage) { Access::storage(t) = std::move(storage); }

at::Tensor device_view(const at::Tensor& like, c10::Storage storage, c10::DeviceIndex core) {
  auto impl = like.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0),
                                                                  /*allow_tensor_metadata_change=*/true);
  Access::storage(impl.get()) = std::move(storage);
  label_as_device(impl.get(), core);
  return at::Tensor(std::move(impl));
}

void copy_geometry(const c10::TensorImpl* from, c10::TensorImpl* to) {
  if (from->sizes() == to->sizes() && from->strides() == to->strides() &&
      from->storage_offset() == to->storage_offset()) {
    return;
  }
  to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
}

}  // namespace neuron_lab
