#include <torch_headers.h>

#include "autograd_exit.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "chip_memory.h"
#include "features.h"
#include "minimal.h"

namespace neuron_lab {
namespace {

const std::thread::id g_main_thread = std::this_thread::get_id();
const pid_t g_process = getpid();
std::atomic<bool> g_workers{false};

// A worker takes one task after another: when it has run this one, it holds nothing of those before. The task itself
// holds no Python object, and no bytes of HBM.
void run_empty_backward(c10::DeviceIndex core) {
  at::Tensor leaf = empty_on_core(core, {0}, c10::kFloat);
  leaf.requires_grad_(true);
  at::Tensor root = leaf.mul(leaf);
  torch::autograd::backward({root}, {empty_on_core(core, {0}, c10::kFloat)});
}

}  // namespace

void note_device_thread() noexcept {
  if (!g_workers.load(std::memory_order_relaxed) && std::this_thread::get_id() != g_main_thread) g_workers.store(true);
}

void wait_for_autograd_workers() {
  if (!g_workers.load() || getpid() != g_process) return;  // none started, or they stayed behind in the parent
  g_features.store(0);  // what follows is not the user's
  const at::AutoGradMode with_gradients(true);
  for (int core = 0; core < core_count(); core++) {
    try {
      run_empty_backward(static_cast<c10::DeviceIndex>(core));
    } catch (const c10::Error&) {
      // Autograd refuses to run, after a fork for instance: then no worker is running either.
    }
  }
}

}  // namespace neuron_lab
