#include <torch_headers.h>

#include "graph_aliases.h"

#include "alias.h"

namespace neuron_lab {
namespace {

// Outputs of one call that are views of each other must stay so.
struct Wrapped {
  const c10::StorageImpl* cpu;
  c10::Storage device;
};

at::Tensor wrap(const at::Tensor& t, c10::DeviceIndex core, std::vector<Wrapped>& wrapped) {
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
  for (const Wrapped& w : wrapped) {
    if (w.cpu == storage) return device_view(t, w.device, core);
  }
  wrapped.push_back({storage, device_storage_over(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage), core)});
  return device_view(t, wrapped.back().device, core);
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
  std::vector<Wrapped> wrapped;
  for (const at::Tensor& t : tensors) out.push_back(wrap(t, index, wrapped));
  return out;
}

}  // namespace neuron_lab
