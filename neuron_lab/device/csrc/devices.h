// Which core a thread works on.
#pragma once

#include <c10/core/Device.h>

namespace neuron_lab {

constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;

// A thread's own choice, else the process's default, else 0.
c10::DeviceIndex current_device() noexcept;
void set_current_device(c10::DeviceIndex index);           // checks the range
c10::DeviceIndex exchange_device(c10::DeviceIndex index);  // checks the range
void unchecked_set_device(c10::DeviceIndex index) noexcept;
void set_default_device(c10::DeviceIndex index);
// What the user's set_device() does: the first one of a process is also the default of threads that never choose.
void user_set_device(c10::DeviceIndex index);

// Raises the real device's error when `index` is none of ours.
void check_index(c10::DeviceIndex index);
// The core an operator's device argument means: index-less is the current one.
c10::DeviceIndex resolve_index(c10::Device device);
inline c10::Device core_device(c10::DeviceIndex index) { return c10::Device(kNeuron, index); }

struct DeviceScope {
  explicit DeviceScope(c10::DeviceIndex index) noexcept;
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex previous_;
};

}  // namespace neuron_lab
