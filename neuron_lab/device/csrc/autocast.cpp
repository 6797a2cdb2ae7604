// Autocast on the device: PyTorch's own lists of which operator runs in lower precision, in float32, or promotes.
// The real device uses these lists unchanged (TorchNeuron source of April 2026).
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// The macros name their policies and types without a namespace.
namespace at::autocast {
namespace {

at::Tensor refuse_binary_cross_entropy(
    const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Use "
      "torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe, or compute "
      "the loss in float32 within torch.autocast(device_type=\"neuron\", enabled=False).");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define NEURON_LAB_CAST_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define NEURON_LAB_CAST_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define NEURON_LAB_CAST_FP32_OPT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define NEURON_LAB_CAST_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(NEURON_LAB_CAST_LOWER)
  AT_FORALL_FP32(NEURON_LAB_CAST_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(NEURON_LAB_CAST_FP32_OPT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(NEURON_LAB_CAST_PROMOTE)
  m.impl(TORCH_SELECTIVE_NAME("aten::binary_cross_entropy"), TORCH_FN(refuse_binary_cross_entropy));
}

}  // namespace
}  // namespace at::autocast
