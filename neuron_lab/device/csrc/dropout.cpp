#include <torch_headers.h>

#include "dropout.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "library.h"
#include "native_kernel.h"

namespace neuron_lab {
namespace {

// CPU dropout multiplies by `noise / (1 - p)`; the fused operator scales by `1 / (1 - p)`, which may round otherwise.
// The mask keeps which elements survive; the backward operator makes the same noise of it again.
at::Tensor noise_of(const at::Tensor& survivors, double keep) {
  at::Tensor noise = survivors;
  return noise.div_(keep);
}

std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  static OpInfo& op = op_info("aten::native_dropout");
  const auto visit = [&](auto& v) {
    v.tensor(input);
    v.value("p", c10::IValue(p));
    v.number("train", train.value_or(true));
  };
  return native_kernel(op, input.device().index(), visit, [&]() -> std::tuple<at::Tensor, at::Tensor> {
    const at::Tensor x = cpu_alias(input);
    if (!train.value_or(true) || p == 0 || x.numel() == 0) return {x.clone(), at::ones_like(x, c10::kBool)};
    if (p == 1) return {x.mul(at::zeros({}, x.options())), at::zeros_like(x, c10::kBool)};
    at::Tensor survivors = at::empty_like(x).bernoulli_(1 - p);
    at::Tensor mask = survivors.to(c10::kBool);
    return {x.mul(noise_of(survivors, 1 - p)), mask};
  });
}

at::Tensor dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double scale) {
  static OpInfo& op = op_info("aten::native_dropout_backward");
  const auto visit = [&](auto& v) {
    v.tensor(grad);
    v.tensor(mask);
    v.value("scale", c10::IValue(scale));
  };
  return std::get<0>(native_kernel(op, grad.device().index(), visit, [&]() -> std::tuple<at::Tensor> {
    const at::Tensor g = cpu_alias(grad);
    if (!g.is_floating_point() && !g.is_complex()) return {g.mul(cpu_alias(mask)).mul(scale)};
    at::Tensor survivors = cpu_alias(mask).to(g.scalar_type());
    return {g.mul(scale == 0 ? survivors.zero_() : noise_of(survivors, 1 / scale))};
  }));
}

}  // namespace

void register_dropout() {
  torch::Library& m = aten_library();
  native(m, "native_dropout", TORCH_FN(dropout));
  native(m, "native_dropout_backward", TORCH_FN(dropout_backward));
}

}  // namespace neuron_lab
