// Registering kernels on the device's dispatch key, and remembering which operators have one of their own.
#pragma once

#include <torch/library.h>

#include <string>
#include <unordered_set>

namespace neuron_lab {

// Never destroyed: taking kernels away while other threads still run operators is how a process aborts at exit.
torch::Library& aten_library();
std::unordered_set<std::string>& native_names();  // with "aten::"

template <class Function>
void native(torch::Library& m, const char* name, Function&& function) {
  native_names().insert(std::string("aten::").append(name));
  m.impl(name, std::forward<Function>(function));
}

// Registers everything. Called once, when the module is imported.
void register_operators();
void register_boxed();
void register_fallbacks();

}  // namespace neuron_lab
