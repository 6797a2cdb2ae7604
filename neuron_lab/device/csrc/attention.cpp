#include <torch_headers.h>

#include "attention.h"

#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>

#include "cpu_section.h"
#include "library.h"
#include "observe.h"

namespace neuron_lab {
namespace {

const c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

// Reads metadata only: fake tensors come here too.
int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double dropout_p, bool is_causal, std::optional<double> scale,
               bool enable_gqa) {
  // The stub's own call operator is not exported from libtorch; its table of CPU functions is.
  const auto cpu_function = decltype(at::native::_fused_sdp_choice_stub)::DEFAULT;
  const int64_t cpu_choice = cpu_function(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
  const auto flash = static_cast<int64_t>(sdp::SDPBackend::flash_attention);
  return cpu_choice == flash ? static_cast<int64_t>(sdp::SDPBackend::overrideable) : cpu_choice;
}

using ForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                                 at::Tensor, at::Tensor>;

ForwardResult forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const std::optional<at::Tensor>& bias, double dropout_p, bool is_causal, bool,
                      std::optional<double> scale) {
  static OpInfo& op = op_info("aten::_scaled_dot_product_fused_attention_overrideable");
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
              "fused attention takes 4-dimensional query, key and value, got ", query.dim(), ", ", key.dim(), " and ",
              value.dim());
  TORCH_CHECK(key.size(1) != 0 && query.size(1) % key.size(1) == 0 && query.size(1) % value.size(1) == 0,
              "Number of heads in key and value must divide the number of heads in query");
  TORCH_CHECK(dropout_p == 0.0, "fused attention on the emulated device takes no dropout");
  const c10::DeviceIndex core = query.device().index();
  Observation seen(op);
  if (seen.active()) {
    seen.begin([&](auto& v) {
      v.tensor(query);
      v.tensor(key);
      v.tensor(value);
      v.tensor(bias.value_or(at::Tensor()));
      v.number("is_causal", is_causal);
    });
    if (seen.fallback()) seen.moved(query.nbytes() + key.nbytes() + value.nbytes());
  }
  auto [out, logsumexp] = [&] {
    const CpuSection section;
    return at::_ops::_scaled_dot_product_flash_attention_for_cpu::redispatch(
        kCpu, cpu_alias(query), cpu_alias(key), cpu_alias(value), dropout_p, is_causal, alias_or_same(bias), scale);
  }();
  out = fresh_to_device(std::move(out), core);
  logsumexp = fresh_to_device(std::move(logsumexp), core);
  if (seen.active()) {
    seen.output(out);
    seen.end(core);
  }
  // Cumulative lengths, random state and mask belong to variants this one is not: undefined, as torch allows.
  return {std::move(out), std::move(logsumexp), at::Tensor(), at::Tensor(), query.sym_size(2), key.sym_size(2),
          at::Tensor(), at::Tensor(), at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, std::array<bool, 4>, const at::Tensor& out, const at::Tensor& logsumexp,
    const at::Tensor&, const at::Tensor&, int64_t, int64_t, double dropout_p, bool is_causal, const at::Tensor&,
    const at::Tensor&, std::optional<double> scale) {
  static OpInfo& op = op_info("aten::_scaled_dot_product_fused_attention_overrideable_backward");
  const c10::DeviceIndex core = query.device().index();
  Observation seen(op);
  if (seen.active()) {
    seen.begin([&](auto& v) {
      v.tensor(grad);
      v.tensor(query);
      v.tensor(key);
      v.tensor(value);
      v.number("is_causal", is_causal);
    });
    if (seen.fallback()) seen.moved(grad.nbytes() + query.nbytes() + key.nbytes() + value.nbytes());
  }
  auto [query_grad, key_grad, value_grad] = [&] {
    const CpuSection section;
    return at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward::redispatch(
        kCpu, cpu_alias(grad), cpu_alias(query), cpu_alias(key), cpu_alias(value), cpu_alias(out),
        cpu_alias(logsumexp), dropout_p, is_causal, alias_or_same(bias), scale);
  }();
  std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> result{
      fresh_to_device(std::move(query_grad), core), fresh_to_device(std::move(key_grad), core),
      fresh_to_device(std::move(value_grad), core), at::Tensor()};
  if (seen.active()) {
    seen.output(std::get<0>(result));
    seen.end(core);
  }
  return result;
}

}  // namespace

void register_attention() {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose);
  torch::Library& m = aten_library();
  native(m, "_fused_sdp_choice", TORCH_FN(choose));
  native(m, "_scaled_dot_product_fused_attention_overrideable", TORCH_FN(forward));
  native(m, "_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(backward));
}

}  // namespace neuron_lab
