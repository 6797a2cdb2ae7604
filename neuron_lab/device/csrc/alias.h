// CPU aliases of device tensors, and device tensors made of what CPU kernels return. No bytes are copied.
#pragma once

#include <ATen/core/Tensor.h>

#include "allocator.h"

namespace neuron_lab {

inline bool is_neuron(const at::TensorBase& t) { return t.defined() && t.device().type() == kNeuron; }

// The dispatch keys of a device tensor: PrivateUse1 above CPU. The CPU bit is what lets `module.to("neuron")` keep its
// Parameter objects: torch asks whether two tensors may exchange their data by looking for a backend on a fixed list,
// on which PrivateUse1 is missing. The dispatcher takes the highest backend, so the bit changes nothing else.
c10::DispatchKeySet device_keys(c10::DispatchKeySet keys);
c10::DispatchKeySet cpu_keys(c10::DispatchKeySet keys);
c10::DispatchKeySet dense_device_keys();

// A CPU tensor over the same bytes, sizes, strides and conj/neg bits. Alive only during one call: it has a version
// counter of its own.
at::Tensor cpu_alias(const at::Tensor& t);
// The same, for aliases that user code can see: shares the version counter, so autograd notices in-place changes.
at::Tensor shared_cpu_alias(const at::Tensor& t);
// Gives an alias back for reuse. Does nothing when somebody else holds it.
void recycle(at::Tensor&& alias) noexcept;

// The CPU storage behind a device storage, made on the spot when the storage is not from our allocator.
c10::intrusive_ptr<c10::StorageImpl> twin_storage(c10::StorageImpl* storage);

// Labels `t`, whose storage is a device storage already, as a tensor of that device.
void label_as_device(c10::TensorImpl* t, c10::DeviceIndex core);
void replace_storage(c10::TensorImpl* t, c10::Storage storage);
// A device tensor over `storage` with the sizes, strides and dtype of the CPU tensor `like`.
at::Tensor device_view(const at::Tensor& like, c10::Storage storage, c10::DeviceIndex core);
void copy_geometry(const c10::TensorImpl* from, c10::TensorImpl* to);

// Keys that must not act while a CPU kernel runs over aliases: autograd, version counting and autocast are above.
extern const c10::DispatchKeySet kKeysAboveKernels;

}  // namespace neuron_lab
