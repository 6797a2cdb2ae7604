// Runs a CPU kernel over aliases of device tensors and hands its results back as device tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>

#include "op_table.h"

namespace neuron_lab {

// What the schema says about an operator, worked out once.
struct OpPlan {
  explicit OpPlan(const c10::OperatorHandle& op);

  struct Slot {
    uint16_t index;
    bool may_hold_tensor;  // a tensor, an optional one, or a list
    bool is_device;
    bool is_generator;
    bool written;
  };

  OpInfo* info;
  std::vector<Slot> slots;            // only the arguments that need a look
  std::vector<std::string> names;     // of all arguments
  size_t arguments = 0;
  size_t returns = 0;
  bool accepts_cpu_tensors = false;   // CPU operands beside device ones are part of the operator's contract
  int size_argument = -1;             // a factory's `size`
  int dtype_argument = -1;
  int pin_argument = -1;
};

void run_boxed(const OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The kernel registered for every operator that has a CPU kernel.
struct BoxedKernel final : c10::OperatorKernel {
  explicit BoxedKernel(const c10::OperatorHandle& op) : plan_(std::make_unique<OpPlan>(op)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    run_boxed(*plan_, op, stack);
  }

 private:
  std::unique_ptr<const OpPlan> plan_;
};

}  // namespace neuron_lab
