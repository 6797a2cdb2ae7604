// A kernel of our own over CPU operators: observes it once under its name, aliases the inputs, relabels the results.
#pragma once

#include "cpu_section.h"
#include "observe.h"

namespace neuron_lab {

// `compute` is given nothing and returns a tuple of tensors made inside the section.
template <class Visit, class Compute>
auto native_kernel(OpInfo& op, c10::DeviceIndex core, Visit&& visit, Compute&& compute) {
  Observation seen(op);
  if (seen.active()) seen.begin(visit);
  auto results = [&] {
    try {
      const CpuSection section;
      return compute();
    } catch (...) {
      if (seen.active()) seen.raised(core);
      throw;
    }
  }();
  std::apply([&](auto&... t) { ((t = fresh_to_device(std::move(t), core)), ...); }, results);
  if (seen.active()) {
    std::apply([&](const auto&... t) { (seen.output(t), ...); }, results);
    if (seen.fallback()) std::apply([&](const auto&... t) { (seen.moved(t.defined() ? t.nbytes() : 0), ...); }, results);
    seen.end(core);
  }
  return results;
}

}  // namespace neuron_lab
