#include "op_table.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace neuron_lab {
namespace {

struct Table {
  std::mutex mutex;
  std::deque<OpInfo> ops;
  std::unordered_map<std::string, OpInfo*> by_name;
};

std::atomic<bool> g_forbidden{false};

Table& table() {
  static auto* instance = new Table();  // never destroyed: other threads run operators while the process exits
  return *instance;
}

}  // namespace

OpInfo& op_info(const std::string& name) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  if (auto found = t.by_name.find(name); found != t.by_name.end()) return *found->second;
  OpInfo& info = t.ops.emplace_back();
  info.id = static_cast<uint32_t>(t.ops.size() - 1);
  info.name = name;
  t.by_name.emplace(name, &info);
  return info;
}

OpInfo& no_kernel_op(const std::string& name) {
  OpInfo& info = op_info(name);
  info.compiles.store(false);
  return info;
}

std::vector<OpInfo*> all_ops() {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  std::vector<OpInfo*> out;
  out.reserve(t.ops.size());
  for (OpInfo& info : t.ops) out.push_back(&info);
  return out;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (OpInfo* info : all_ops()) names.push_back(info->name);
  return names;
}

void set_fallback_ops(const std::vector<std::string>& names) {
  for (OpInfo* info : all_ops()) info->falls_back.store(false);
  for (const std::string& name : names) op_info(name).falls_back.store(true);
}

void forbid_fallbacks(bool forbid) { g_forbidden.store(forbid); }
bool fallbacks_forbidden() noexcept { return g_forbidden.load(std::memory_order_relaxed); }

std::vector<std::string> new_fallbacks() {
  std::vector<std::string> names;
  for (OpInfo* info : all_ops()) {
    if (info->fallbacks.load() != 0 && !info->fallback_reported.exchange(true)) names.push_back(info->name);
  }
  return names;
}

void clear_op_tracking() {
  for (OpInfo* info : all_ops()) {
    info->executed.store(false);
    info->fallbacks.store(0);
  }
}

}  // namespace neuron_lab
