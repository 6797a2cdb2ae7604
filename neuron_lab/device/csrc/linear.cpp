#include <torch_headers.h>

#include "linear.h"

#include "library.h"
#include "native_kernel.h"

namespace neuron_lab {
namespace {

// The same products, in the same layout, that autograd makes of `linear` on the CPU, so the values are equal.
std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_backward(const at::Tensor& self, const at::Tensor& grad_output,
                                                               const at::Tensor& weight, std::array<bool, 3> mask) {
  static OpInfo& op = op_info("aten::linear_backward");
  const auto visit = [&](auto& v) {
    v.tensor(self);
    v.tensor(grad_output);
    v.tensor(weight);
    v.number("output_mask", mask[0] + 2 * mask[1] + 4 * mask[2]);
  };
  const auto compute = [&]() -> std::tuple<at::Tensor, at::Tensor, at::Tensor> {
    const at::Tensor x = cpu_alias(self);
    const at::Tensor w = cpu_alias(weight);
    const at::Tensor grad = cpu_alias(grad_output).reshape({-1, w.size(0)});
    std::tuple<at::Tensor, at::Tensor, at::Tensor> out;
    if (mask[0]) std::get<0>(out) = grad.mm(w).view(x.sizes());
    if (mask[1]) std::get<1>(out) = grad.t().mm(x.reshape({-1, w.size(1)}));
    if (mask[2]) std::get<2>(out) = grad.sum(0);
    return out;
  };
  return native_kernel(op, self.device().index(), visit, compute);
}

}  // namespace

void register_linear() { native(aten_library(), "linear_backward", TORCH_FN(linear_backward)); }

}  // namespace neuron_lab
