// Operators outside aten: user and library operators with a CPU kernel run over aliases like any other; sparse and
// quantized tensors are refused in one sentence.
#include <torch_headers.h>

#include <mutex>
#include <unordered_map>

#include "boxed.h"
#include "library.h"

namespace neuron_lab {
namespace {

const OpPlan& plan_for(const c10::OperatorHandle& op) {
  static auto* mutex = new std::mutex();
  static auto* plans = new std::unordered_map<std::string, std::unique_ptr<OpPlan>>();
  const std::string key = toString(op.operator_name());
  std::lock_guard lock(*mutex);
  std::unique_ptr<OpPlan>& plan = (*plans)[key];
  if (plan == nullptr) plan = std::make_unique<OpPlan>(op);
  return *plan;
}

void run_any_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "Could not run '",
                              toString(op.operator_name()),
                              "' with arguments from the 'neuron' backend: it has neither a neuron nor a CPU kernel. "
                              "Register one for \"neuron\" or \"cpu\" (torch.library.impl), or run this part on the CPU");
  run_boxed(plan_for(op), op, stack);
}

void refuse(const char* layout, const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, toString(op.operator_name()), ": the neuron device holds no ", layout,
                              " tensors. Do this part on the CPU: build and use the ", layout,
                              " tensor there, and move its dense form with .to_dense().to('neuron')");
}

void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack*) { refuse("sparse (COO)", op); }
void refuse_compressed(const c10::OperatorHandle& op, torch::jit::Stack*) { refuse("sparse compressed", op); }
void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, toString(op.operator_name()), ": the neuron device holds no quantized tensors. "
                              "Quantize on the CPU, and move the dequantized tensor with .dequantize().to('neuron')");
}
void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, toString(op.operator_name()), ": the neuron device holds no strided nested "
                              "tensors. Use layout=torch.jagged, or pad on the CPU with to_padded_tensor()");
}

template <class Function>
void fall_back(c10::DispatchKey key, Function&& function) {
  auto* library = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);  // see aten_library
  library->fallback(std::forward<Function>(function));
}

}  // namespace

void register_fallbacks() {
  using torch::CppFunction;
  fall_back(c10::DispatchKey::PrivateUse1, CppFunction::makeFromBoxedFunction<&run_any_operator>());
  fall_back(c10::DispatchKey::SparsePrivateUse1, CppFunction::makeFromBoxedFunction<&refuse_sparse>());
  fall_back(c10::DispatchKey::SparseCsrPrivateUse1, CppFunction::makeFromBoxedFunction<&refuse_compressed>());
  fall_back(c10::DispatchKey::QuantizedPrivateUse1, CppFunction::makeFromBoxedFunction<&refuse_quantized>());
  fall_back(c10::DispatchKey::NestedTensorPrivateUse1, CppFunction::makeFromBoxedFunction<&refuse_nested>());
}

}  // namespace neuron_lab
