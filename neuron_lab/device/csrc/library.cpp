#include <torch_headers.h>

#include "library.h"

#include "attention.h"
#include "dropout.h"
#include "linear.h"
#include "minimal.h"
#include "recurrent.h"

namespace neuron_lab {

torch::Library& aten_library() {
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  return *library;
}

std::unordered_set<std::string>& native_names() {
  static auto* names = new std::unordered_set<std::string>();
  return *names;
}

void register_operators() {
  register_minimal();
  register_attention();
  register_dropout();
  register_linear();
  register_recurrent();
  register_boxed();  // last: it takes what has no kernel of its own
  register_fallbacks();
}

}  // namespace neuron_lab
