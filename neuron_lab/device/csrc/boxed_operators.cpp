// Which operators run as one CPU kernel over aliases: all that have a CPU kernel, and those that torch composes of
// several others below autograd, so that the device sees one operator where the real one does.
#include <torch_headers.h>

#include <ATen/core/dispatch/Dispatcher.h>

#include <unordered_set>

#include "boxed.h"
#include "library.h"

namespace neuron_lab {
namespace {

// Composite operators that must stay composed: they return views or their own argument, only change metadata, choose
// the result's device themselves, or allocate (and must be refused before the host pays for the memory).
const std::unordered_set<std::string>& stays_composite() {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::_to_copy", "aten::_pin_memory", "aten::is_pinned", "aten::_unsafe_view", "aten::_lazy_clone",
      "aten::detach_", "aten::detach", "aten::lift", "aten::lift_fresh", "aten::lift_fresh_copy", "aten::alias",
      "aten::resize_as_", "aten::_resize_output_", "aten::resize_as_sparse_", "aten::_propagate_xla_data",
      "aten::rename_", "aten::rename", "aten::is_same_size", "aten::_has_same_storage_numel",
      "aten::empty_like", "aten::new_empty", "aten::new_empty_strided", "aten::new_full", "aten::new_zeros",
      "aten::new_ones", "aten::zeros", "aten::ones", "aten::full", "aten::zeros_like", "aten::ones_like",
      "aten::full_like", "aten::empty.names", "aten::empty_quantized", "aten::_empty_affine_quantized",
      "aten::_empty_per_channel_affine_quantized", "aten::zeros.names", "aten::ones.names", "aten::full.names",
      "aten::rand_like", "aten::randn_like", "aten::randint_like", "aten::randint_like.low_dtype",
      "aten::_nested_tensor_from_tensor_list", "aten::_efficientzerotensor", "aten::_new_zeros_with_same_feature_meta",
      "aten::sym_size.int", "aten::sym_numel", "aten::sym_stride.int", "aten::sym_storage_offset",
      "aten::_dimI", "aten::_dimV", "aten::_nnz", "aten::dense_dim", "aten::sparse_dim", "aten::is_coalesced",
      "aten::_fw_primal", "aten::_make_dual", "aten::_print", "aten::_sparse_coo_tensor_unsafe",
      "aten::copy", "aten::_to_dense", "aten::set_data", "aten::_nested_view_from_buffer",
      "aten::_nested_view_from_jagged", "aten::block_diag", "aten::_foobar",
      "aten::_has_compatible_shallow_copy_type", "aten::requires_grad_", "aten::retain_grad",
      "aten::randint_like.Tensor", "aten::rand_like.generator", "aten::randn_like.generator",
      "aten::randint_like.generator", "aten::randint_like.low_generator_dtype",
      "aten::randint_like.Tensor_generator",
  };
  return *names;
}

bool only_changes_metadata(const c10::OperatorHandle& op) {
  for (const at::Tag& tag : op.getTags()) {
    if (tag == at::Tag::inplace_view) return true;
  }
  return false;
}

bool returns_a_view(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

bool composed_below_autograd(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
}

bool runs_boxed(const c10::OperatorHandle& op, const std::string& name) {
  if (native_names().count(name) != 0 || stays_composite().count(name) != 0) return false;
  if (returns_a_view(op.schema()) || only_changes_metadata(op)) return false;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) || composed_below_autograd(op);
}

}  // namespace

void register_boxed() {
  auto& dispatcher = c10::Dispatcher::singleton();
  torch::Library& m = aten_library();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value()) continue;
    const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    if (!runs_boxed(*op, full)) continue;
    m.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(*op)));
  }
}

}  // namespace neuron_lab
