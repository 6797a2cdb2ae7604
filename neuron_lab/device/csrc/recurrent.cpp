#include <torch_headers.h>

#include "recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include "library.h"
#include "native_kernel.h"

namespace neuron_lab {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using at::Tensor;

Tensor gates_of(const Tensor& gates, const OptionalTensor& bias) {
  const Tensor g = cpu_alias(gates);
  const OptionalTensor b = alias_or_same(bias);
  return b.has_value() ? g + *b : g;
}

Tensor sum_rows(const Tensor& grad, bool wanted) { return wanted ? grad.sum(0) : Tensor(); }

// Gates in the order input, forget, cell, output. The workspace keeps them after their activation.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  static OpInfo& op = op_info("aten::_thnn_fused_lstm_cell");
  const auto visit = [&](auto& v) {
    v.tensor(input_gates);
    v.tensor(hidden_gates);
    v.tensor(cx);
  };
  return native_kernel(op, cx.device().index(), visit, [&]() -> std::tuple<Tensor, Tensor, Tensor> {
    const auto gates = (gates_of(hidden_gates, hidden_bias) + gates_of(input_gates, input_bias)).chunk(4, 1);
    const Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), out = gates[3].sigmoid();
    const Tensor cy = forget * cpu_alias(cx) + in * cell;
    return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
  });
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  static OpInfo& op = op_info("aten::_thnn_fused_lstm_cell_backward_impl");
  const auto visit = [&](auto& v) {
    v.tensor(cx);
    v.tensor(workspace);
    v.number("has_bias", has_bias);
  };
  return native_kernel(op, cx.device().index(), visit, [&]() -> std::tuple<Tensor, Tensor, Tensor> {
    const Tensor old_cell = cpu_alias(cx);
    const auto gates = cpu_alias(workspace).chunk(4, 1);
    const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
    const Tensor ghy = alias_or_same(grad_hy).value_or(at::zeros_like(old_cell));
    const Tensor squashed = cpu_alias(cy).tanh();
    Tensor gc = ghy * out * (1 - squashed * squashed);
    if (const OptionalTensor gcy = alias_or_same(grad_cy)) gc = gc + *gcy;
    const Tensor grad_gates = at::cat({gc * cell * (1 - in) * in, gc * old_cell * (1 - forget) * forget,
                                       gc * in * (1 - cell * cell), ghy * squashed * (1 - out) * out},
                                      1);
    return {grad_gates, gc * forget, sum_rows(grad_gates, has_bias)};
  });
}

// Gates in the order reset, input, new. The workspace keeps those, the old state, and the hidden part of `new`.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  static OpInfo& op = op_info("aten::_thnn_fused_gru_cell");
  const auto visit = [&](auto& v) {
    v.tensor(input_gates);
    v.tensor(hidden_gates);
    v.tensor(hx);
  };
  return native_kernel(op, hx.device().index(), visit, [&]() -> std::tuple<Tensor, Tensor> {
    const auto from_input = gates_of(input_gates, input_bias).chunk(3, 1);
    const auto from_hidden = gates_of(hidden_gates, hidden_bias).chunk(3, 1);
    const Tensor state = cpu_alias(hx);
    const Tensor reset = (from_hidden[0] + from_input[0]).sigmoid();
    const Tensor input = (from_hidden[1] + from_input[1]).sigmoid();
    const Tensor fresh = (from_input[2] + from_hidden[2] * reset).tanh();
    return {(state - fresh) * input + fresh, at::cat({reset, input, fresh, state, from_hidden[2]}, 1)};
  });
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  static OpInfo& op = op_info("aten::_thnn_fused_gru_cell_backward");
  const auto visit = [&](auto& v) {
    v.tensor(grad_hy);
    v.tensor(workspace);
    v.number("has_bias", has_bias);
  };
  return native_kernel(op, grad_hy.device().index(), visit, [&]() -> std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> {
    const Tensor grad = cpu_alias(grad_hy);
    const auto kept = cpu_alias(workspace).chunk(5, 1);
    const Tensor &reset = kept[0], &input = kept[1], &fresh = kept[2], &state = kept[3], &hidden_new = kept[4];
    const Tensor grad_input_gate = grad * (state - fresh) * (1 - input) * input;
    const Tensor grad_new = grad * (1 - input) * (1 - fresh * fresh);
    const Tensor grad_reset = grad_new * hidden_new * (1 - reset) * reset;
    const Tensor to_input = at::cat({grad_reset, grad_input_gate, grad_new}, 1);
    const Tensor to_hidden = at::cat({grad_reset, grad_input_gate, grad_new * reset}, 1);
    return {to_input, to_hidden, grad * input, sum_rows(to_input, has_bias), sum_rows(to_hidden, has_bias)};
  });
}

}  // namespace

void register_recurrent() {
  torch::Library& m = aten_library();
  native(m, "_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  native(m, "_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  native(m, "_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  native(m, "_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace neuron_lab
