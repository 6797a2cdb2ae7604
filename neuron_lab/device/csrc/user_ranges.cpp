// A global callback for user scope only: operators, which have a scope of their own, do not pay for it.
#include <torch_headers.h>

#include "user_ranges.h"

#include "clock.h"
#include "recorder.h"

namespace neuron_lab {
namespace {

struct Names {
  std::mutex mutex;
  std::unordered_map<std::string, uint32_t> ids;
  std::vector<std::string> in_order;
};

Names& names() {
  static auto* instance = new Names();  // never destroyed: a thread may end a range while the process ends
  return *instance;
}

uint32_t name_id(const std::string& name) {
  Names& all = names();
  std::lock_guard lock(all.mutex);
  const auto [where, inserted] = all.ids.emplace(name, static_cast<uint32_t>(all.in_order.size()));
  if (inserted) all.in_order.push_back(name);
  return where->second;
}

struct Entered : at::ObserverContext {
  int64_t start_ns = now_ns();
};

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction&) { return std::make_unique<Entered>(); }

void leave(const at::RecordFunction& range, at::ObserverContext* context) {
  if (!(features() & kRecorder)) return;
  Record record;
  record.kind = RecordKind::kUserRange;
  record.start_ns = static_cast<Entered*>(context)->start_ns;
  record.end_ns = now_ns();
  record.signature = name_id(range.name());
  write_record(record);
}

at::CallbackHandle g_callback = 0;
std::mutex g_callback_mutex;

}  // namespace

void user_ranges_start() {
  std::lock_guard lock(g_callback_mutex);
  if (g_callback != 0) return;
  g_callback = at::addGlobalCallback(
      at::RecordFunctionCallback(&enter, &leave).scopes({at::RecordScope::USER_SCOPE}));
}

void user_ranges_stop() {
  std::lock_guard lock(g_callback_mutex);
  if (g_callback == 0) return;
  at::removeCallback(g_callback);
  g_callback = 0;
}

std::vector<std::string> user_range_names(uint32_t first) {
  Names& all = names();
  std::lock_guard lock(all.mutex);
  if (first >= all.in_order.size()) return {};
  return {all.in_order.begin() + first, all.in_order.end()};
}

}  // namespace neuron_lab
