// One entry per operator the device serves: its name, and what is known of its use in this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace neuron_lab {

struct OpInfo {
  uint32_t id = 0;
  std::string name;  // "aten::add.Tensor"
  std::atomic<bool> compiles{true};    // false: needs no kernel (allocation, host copy)
  std::atomic<bool> falls_back{false};  // the real device computes it on the host
  std::atomic<bool> executed{false};
  std::atomic<uint64_t> fallbacks{0};
  std::atomic<bool> fallback_reported{false};
};

// Entries live for ever and never move.
OpInfo& op_info(const std::string& name);
OpInfo& no_kernel_op(const std::string& name);  // one that compiles nothing
std::vector<std::string> op_names();
void set_fallback_ops(const std::vector<std::string>& names);
// Makes an operator that falls back an error instead.
void forbid_fallbacks(bool forbid);
bool fallbacks_forbidden() noexcept;
std::vector<OpInfo*> all_ops();
std::vector<std::string> new_fallbacks();  // fell back since start and not returned yet
void clear_op_tracking();

}  // namespace neuron_lab
