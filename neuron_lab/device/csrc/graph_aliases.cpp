#include "graph_aliases.h"

#include "alias.h"

namespace neuron_lab {
namespace {

at::Tensor wrap(const at::Tensor& t, c10::DeviceIndex core) {
  if (!t.defined() || !t.is_cpu()) return t;
  TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == c10::kStrided && t.has_storage(),
                              "a compiled graph returned a tensor of layout ", t.layout(),
                              ", which the neuron device does not hold");
  c10::StorageImpl* storage = t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (auto* twin = dynamic_cast<TwinStorage*>(storage)) {
    TORCH_CHECK(twin->owner != nullptr, "a compiled graph returned a view of a tensor that is gone");
    reseat(twin->owner, twin);
    return device_view(t, c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(twin->owner)), twin->core);
  }
  if (storage->device_type() == kNeuron) return device_view(t, t.storage(), core);  // another result's memory too
  adopt(storage, core);
  return device_view(t, t.storage(), core);
}

}  // namespace

std::vector<at::Tensor> aliases_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  out.reserve(tensors.size());
  for (const at::Tensor& t : tensors) out.push_back(is_neuron(t) ? shared_cpu_alias(t) : t);
  return out;
}

std::vector<at::Tensor> wrap_outputs(const std::vector<at::Tensor>& tensors, int core) {
  const auto index = static_cast<c10::DeviceIndex>(core);
  check_index(index);
  std::vector<at::Tensor> out;
  out.reserve(tensors.size());
  for (const at::Tensor& t : tensors) out.push_back(wrap(t, index));
  return out;
}

}  // namespace neuron_lab
