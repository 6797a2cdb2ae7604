// Which Python line is running: the innermost frames outside torch itself, interned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace neuron_lab {

struct StackFrame {
  std::string file;
  int line = 0;
  std::string function;
};

constexpr int kMaxFrames = 32;

// Takes the GIL, so never call it holding a lock. -1 when this thread runs no Python, or the interpreter is ending.
int32_t capture_stack();
std::vector<std::vector<StackFrame>> stacks_from(uint32_t first);
// Files below this directory are left out: torch's own.
void set_internal_directory(std::string directory);

}  // namespace neuron_lab
