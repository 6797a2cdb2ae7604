// Running CPU operators over aliases from a kernel of our own.
#pragma once

#include "alias.h"

namespace neuron_lab {

// While one exists, this thread's operators run below autograd and autocast, and torch's profiler does not see them:
// it has counted the device operator already.
class CpuSection {
 public:
  // Switching the callbacks off and on rebuilds torch's cache of them, which costs more than a small operator. Our own
  // callback for user ranges is not one for functions.
  CpuSection() {
    if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value()) once_.emplace();
  }

 private:
  c10::impl::ExcludeDispatchKeyGuard below_{kKeysAboveKernels};
  std::optional<at::DisableRecordFunctionGuard> once_;
};

inline at::Tensor alias_or_same(const at::Tensor& t) { return is_neuron(t) ? cpu_alias(t) : t; }

inline std::optional<at::Tensor> alias_or_same(const std::optional<at::Tensor>& t) {
  if (!t.has_value() || !t->defined()) return std::nullopt;
  return alias_or_same(*t);
}

// A tensor that the section made, as a tensor of the device. No bytes are copied.
inline at::Tensor fresh_to_device(at::Tensor t, c10::DeviceIndex core) {
  if (!t.defined() || is_neuron(t)) return t;
  c10::StorageImpl* storage = t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (storage->device_type() != kNeuron) adopt(storage, core);
  label_as_device(t.unsafeGetTensorImpl(), core);
  return t;
}

}  // namespace neuron_lab
