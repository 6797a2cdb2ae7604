#include <torch_headers.h>

#include "minimal.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/_local_scalar_dense_ops.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "cpu_section.h"
#include "library.h"
#include "observe.h"

namespace neuron_lab {
namespace {

const c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided,
                              "the neuron device holds strided tensors only, got layout ", layout.value_or(c10::kStrided),
                              "; build the tensor on the CPU and move its dense form with .to('neuron')");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned, not neuron tensors");
}

c10::ScalarType dtype_of(std::optional<c10::ScalarType> dtype) {
  return dtype.value_or(c10::typeMetaToScalarType(c10::get_default_dtype()));
}

c10::DeviceIndex core_of(std::optional<c10::Device> device) {
  return resolve_index(device.value_or(c10::Device(kNeuron)));
}

template <class Make>
at::Tensor observed_allocation(OpInfo& op, c10::IntArrayRef size, c10::ScalarType dtype, c10::DeviceIndex core,
                               Make&& make) {
  Observation seen(op);
  if (seen.active()) {
    seen.begin([&](auto& v) {
      v.ints("size", size);
      v.number("dtype", static_cast<int64_t>(dtype));
    });
  }
  at::Tensor out = make();
  if (seen.active()) {
    seen.output(out);
    seen.end(core);
  }
  return out;
}

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype_opt, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> memory_format) {
  static OpInfo& op = no_kernel_op("aten::empty.memory_format");
  check_options(layout, pin_memory);
  const c10::DeviceIndex core = core_of(device);
  const c10::ScalarType dtype = dtype_of(dtype_opt);
  return observed_allocation(op, size, dtype, core, [&] { return empty_on_core(core, size, dtype, memory_format); });
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype_opt,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  static OpInfo& op = no_kernel_op("aten::empty_strided");
  check_options(layout, pin_memory);
  const c10::DeviceIndex core = core_of(device);
  const c10::ScalarType dtype = dtype_of(dtype_opt);
  return observed_allocation(op, size, dtype, core, [&] {
    const DeviceScope scope(core);
    return at::Tensor(
        at::detail::empty_strided_generic(size, stride, device_allocator(), dense_device_keys(), dtype));
  });
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                      std::optional<int64_t> storage_offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, storage_offset);
}

at::Tensor view(const at::Tensor& self, c10::IntArrayRef size) { return at::native::view(self, size); }

at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}

at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}

void run_copy(const at::Tensor& self, const at::Tensor& src) {
  at::Tensor to = alias_or_same(self);
  at::Tensor from = alias_or_same(src);
  {
    const CpuSection section;
    at::_ops::copy_::redispatch(kCpu, to, from, /*non_blocking=*/false);
  }
  if (is_neuron(self)) recycle(std::move(to));
  if (is_neuron(src)) recycle(std::move(from));
}

RecordKind direction(const at::Tensor& self, const at::Tensor& src) {
  if (!is_neuron(src)) return RecordKind::kCopyToDevice;
  if (!is_neuron(self)) return RecordKind::kCopyToHost;
  return self.device() == src.device() ? RecordKind::kOperator : RecordKind::kCopyOnDevice;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool) {
  static OpInfo& op = op_info("aten::copy_");
  TORCH_CHECK((is_neuron(self) || self.is_cpu()) && (is_neuron(src) || src.is_cpu()),
              "copy_ between ", src.device(), " and ", self.device(), " is not possible; copy through the CPU");
  const c10::DeviceIndex core = is_neuron(self) ? self.device().index() : src.device().index();
  Observation seen(op);
  if (!seen.active()) {
    run_copy(self, src);
    return self;
  }
  const RecordKind kind = direction(self, src);
  seen.begin([&](auto& v) {
    v.tensor(self);
    v.tensor(src);
    v.number("direction", static_cast<int64_t>(kind));
  });
  seen.output(self);
  if (kind != RecordKind::kOperator) seen.moved(self.nbytes());
  try {
    run_copy(self, src);
  } catch (...) {
    seen.raised(core, kind);
    throw;
  }
  seen.end(core, kind);
  return self;
}

at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  at::Tensor to = dst;
  copy_(to, src, non_blocking);
  return dst;
}

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  static OpInfo& op = no_kernel_op("aten::_local_scalar_dense");
  TORCH_CHECK(self.numel() == 1, "_local_scalar_dense: tensor must have exactly one element, got ", self.numel());
  Observation seen(op);
  if (seen.active()) {
    seen.begin([&](auto& v) { v.tensor(self); });
    seen.moved(self.element_size());
  }
  at::Tensor alias = cpu_alias(self);
  c10::Scalar value = [&] {
    const CpuSection section;
    return at::_ops::_local_scalar_dense::redispatch(kCpu, alias);
  }();
  recycle(std::move(alias));
  if (seen.active()) seen.end(self.device().index(), RecordKind::kCopyToHost);
  return value;
}

// Makes the storage hold at least what sizes and strides reach.
void grow_storage(c10::TensorImpl* impl, size_t needed_bytes) {
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (needed_bytes <= storage->nbytes()) return;
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  resize_storage(storage, needed_bytes);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size,
                          std::optional<c10::MemoryFormat> memory_format) {
  static OpInfo& op = no_kernel_op("aten::resize_");
  const c10::DeviceIndex core = self.device().index();
  observed_allocation(op, size, self.scalar_type(), core, [&]() -> at::Tensor {
    c10::TensorImpl* impl = self.unsafeGetTensorImpl();
    if (self.sizes() != size) {
      at::detail::check_size_nonnegative(size);
      impl->set_sizes_contiguous(size);
      grow_storage(impl, at::detail::computeStorageNbytesContiguous(size, self.element_size(), self.storage_offset()));
    }
    if (memory_format.has_value()) {
      TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
      impl->empty_tensor_restride(*memory_format);
    }
    return self;
  });
  return self;
}

at::Tensor& set_to_storage_at(at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size,
                              c10::IntArrayRef stride) {
  TORCH_CHECK(source.device_type() == kNeuron, "set_: the source is on ", source.device(),
              " device, expected neuron");
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (stride.data() == nullptr && !size.empty()) {
    impl->set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride);
  }
  grow_storage(impl, at::detail::computeStorageNbytes(impl->sizes(), impl->strides(), self.element_size(), offset));
  return self;
}

at::Tensor& set_to_storage(at::Tensor& self, c10::Storage source) {
  const int64_t length = static_cast<int64_t>(source.nbytes() / self.element_size());
  const int64_t one = 1;
  return set_to_storage_at(self, std::move(source), 0, c10::IntArrayRef(&length, 1), c10::IntArrayRef(&one, 1));
}

at::Tensor& set_to_tensor(at::Tensor& self, const at::Tensor& source) {
  TORCH_CHECK(is_neuron(source), "set_: the source is on ", source.device(), " device, expected neuron");
  if (self.is_same(source)) return self;
  return set_to_storage_at(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_to_nothing(at::Tensor& self) {
  const DeviceScope scope(self.device().index());
  c10::Storage fresh(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                           device_allocator()->allocate(0), device_allocator(), true));
  const int64_t zero = 0;
  const int64_t one = 1;
  return set_to_storage_at(self, std::move(fresh), 0, c10::IntArrayRef(&zero, 1), c10::IntArrayRef(&one, 1));
}

// Work is finished when a call returns, so no block ever waits for a stream.
void record_stream(at::Tensor&, c10::Stream) {}

}  // namespace

at::Tensor empty_on_core(c10::DeviceIndex core, c10::IntArrayRef size, c10::ScalarType dtype,
                         std::optional<c10::MemoryFormat> memory_format) {
  const DeviceScope scope(core);
  return at::Tensor(at::detail::empty_generic(size, device_allocator(), dense_device_keys(), dtype, memory_format));
}

void register_minimal() {
  torch::Library& m = aten_library();
  native(m, "empty.memory_format", TORCH_FN(empty));
  native(m, "empty_strided", TORCH_FN(empty_strided));
  native(m, "as_strided", TORCH_FN(as_strided));
  native(m, "view", TORCH_FN(view));
  native(m, "_reshape_alias", TORCH_FN(reshape_alias));
  native(m, "unfold", TORCH_FN(unfold));
  native(m, "copy_", TORCH_FN(copy_));
  native(m, "_copy_from", TORCH_FN(copy_from));
  native(m, "_local_scalar_dense", TORCH_FN(local_scalar_dense));
  native(m, "resize_", TORCH_FN(resize_));
  native(m, "set_.source_Storage", TORCH_FN(set_to_storage));
  native(m, "set_.source_Storage_storage_offset", TORCH_FN(set_to_storage_at));
  native(m, "set_.source_Tensor", TORCH_FN(set_to_tensor));
  native(m, "set_", TORCH_FN(set_to_nothing));
  native(m, "record_stream", TORCH_FN(record_stream));
}

}  // namespace neuron_lab
