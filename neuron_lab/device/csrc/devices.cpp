#include <torch_headers.h>

#include "devices.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "chip_memory.h"

namespace neuron_lab {
namespace {

constexpr c10::DeviceIndex kNone = -1;
thread_local c10::DeviceIndex t_current = kNone;
std::atomic<c10::DeviceIndex> g_default{kNone};

}  // namespace

c10::DeviceIndex current_device() noexcept {
  if (t_current != kNone) return t_current;
  const c10::DeviceIndex process_default = g_default.load(std::memory_order_relaxed);
  return process_default == kNone ? c10::DeviceIndex{0} : process_default;
}

void check_index(c10::DeviceIndex index) {
  const int count = core_count();
  TORCH_CHECK(count > 0, "the neuron device is not active in this process; call neuron_lab.activate() first");
  TORCH_CHECK_VALUE(index >= 0 && index < count, "Device index ", static_cast<int>(index),
                    " is out of range. Valid range is 0 to ", count - 1, " for this process");
}

void set_current_device(c10::DeviceIndex index) {
  check_index(index);
  t_current = index;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const c10::DeviceIndex previous = current_device();
  if (index != previous) set_current_device(index);
  return previous;
}

void unchecked_set_device(c10::DeviceIndex index) noexcept { t_current = index; }

void set_default_device(c10::DeviceIndex index) {
  check_index(index);
  g_default.store(index);
}

void user_set_device(c10::DeviceIndex index) {
  set_current_device(index);
  c10::DeviceIndex unset = kNone;
  g_default.compare_exchange_strong(unset, index);
}

c10::DeviceIndex resolve_index(c10::Device device) {
  const c10::DeviceIndex index = device.has_index() ? device.index() : current_device();
  check_index(index);
  return index;
}

DeviceScope::DeviceScope(c10::DeviceIndex index) noexcept : previous_(t_current) { t_current = index; }
DeviceScope::~DeviceScope() { t_current = previous_; }

}  // namespace neuron_lab
