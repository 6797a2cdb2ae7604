// Devices, streams and events as torch's device guard asks for them. All work is finished when a call returns, so
// a stream is only a number and an event only a time.
#include <torch_headers.h>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "autograd_exit.h"
#include "chip_memory.h"
#include "clock.h"
#include "devices.h"

namespace neuron_lab {
namespace {

// Stream ids as TorchNeuron of April 2026 makes them: counter << 5 | priority (2 bits) << 3 | slot (3 bits).
constexpr int kPoolStreams = 3;
constexpr int kCounterShift = 5;
constexpr int kPriorityShift = 3;

// Without it every stream is the default one. Read whenever a stream is made, as the real device does.
bool many_streams() {
  const char* value = std::getenv("NEURON_RT_ENABLE_HOST_CC");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

thread_local std::unordered_map<int, c10::StreamId> t_streams;  // by core; absent = the default stream

struct Event {
  int64_t recorded_ns = 0;
  c10::DeviceIndex core = -1;
  bool timing = false;
};

struct NeuronGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNeuron; }

  c10::Device exchangeDevice(c10::Device device) const override {
    return core_device(device.has_index() ? exchange_device(device.index()) : current_device());
  }
  c10::Device getDevice() const override { return core_device(current_device()); }
  void setDevice(c10::Device device) const override {
    note_device_thread();
    if (device.has_index()) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) unchecked_set_device(device.index());
  }
  // Must not raise: it is asked before the device is active, too.
  c10::DeviceIndex deviceCount() const noexcept override {
    const int count = core_count();
    return static_cast<c10::DeviceIndex>(count > 127 ? 127 : count);
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device device) const override {
    const auto found = t_streams.find(resolve_index(device));
    return make_stream(device, found == t_streams.end() ? 0 : found->second);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return make_stream(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    if (!many_streams()) return make_stream(device, 0);
    static std::atomic<int64_t> counter{0};
    const int64_t n = counter.fetch_add(1) + 1;
    const int64_t level = priority < 0 ? 1 : 0;
    return make_stream(device, (n << kCounterShift) | (level << kPriorityShift) | ((n - 1) % kPoolStreams + 1));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream previous = getStream(stream.device());
    t_streams[stream.device_index()] = stream.id();
    return previous;
  }
  void* getStreamNativeHandle(const c10::Stream) const override { return nullptr; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    if (*event == nullptr) *event = new Event();
    auto* e = static_cast<Event*>(*event);
    e->recorded_ns = now_ns();
    e->core = stream.device_index();
    e->timing = flag == c10::EventFlag::BACKEND_DEFAULT;  // what torch.Event(enable_timing=True) passes
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }

  // Host clock at the time of each record() call, in milliseconds: what TorchNeuron of April 2026 measures.
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr, "Event has not been recorded");
    TORCH_CHECK(end != nullptr, "End event has not been recorded");
    const auto* first = static_cast<const Event*>(start);
    const auto* last = static_cast<const Event*>(end);
    TORCH_CHECK(first->timing, "Event was not created with timing enabled");
    TORCH_CHECK(last->timing, "End event was not created with timing enabled");
    TORCH_CHECK(first->core == last->core, "Events must be on the same device");
    return static_cast<double>(last->recorded_ns - first->recorded_ns) / 1e6;
  }

 private:
  static c10::Stream make_stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, core_device(resolve_index(device)), id);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, NeuronGuard)

}  // namespace
}  // namespace neuron_lab
