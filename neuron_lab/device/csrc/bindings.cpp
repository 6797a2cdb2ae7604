// What Python sees, as the module `_neuron_core`. Types are in core.pyi beside the loader.
#include <torch_headers.h>

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "alias.h"
#include "autograd_exit.h"
#include "chip_memory.h"
#include "clock.h"
#include "generator.h"
#include "graph_aliases.h"
#include "library.h"
#include "observe.h"
#include "user_ranges.h"

namespace py = pybind11;

namespace neuron_lab {
namespace {

void configure(std::vector<int> pool_of_core, std::vector<int64_t> pool_limit_bytes, std::string label) {
  configure_chip({std::move(pool_of_core), std::move(pool_limit_bytes), std::move(label)});
}

py::dict memory_stats(int core) {
  check_index(static_cast<c10::DeviceIndex>(core));
  const CoreStats stats = core_stats(core);
  py::dict out;
  out["current"] = stats.current_bytes;
  out["peak"] = stats.peak_bytes;
  out["allocated"] = stats.allocated_bytes;
  out["freed"] = stats.freed_bytes;
  out["num_allocs"] = stats.requests;
  out["num_frees"] = stats.frees;
  out["num_ooms"] = stats.ooms;
  out["live_blocks"] = stats.live_blocks;
  out["limit"] = pool_limit_bytes(core);
  out["free"] = pool_free_bytes(core);
  return out;
}

py::dict counters_dict() {
  const Counters c = counters();
  py::dict out;
  out["operators"] = c.operators;
  out["fallbacks"] = c.fallbacks;
  out["fallback_bytes"] = c.fallback_bytes;
  out["eager_kernels_distinct"] = kernel_count();
  out["eager_kernel_hits"] = c.eager_kernel_hits;
  out["copies"] = c.copies_to_device + c.copies_to_host + c.copies_on_device;
  out["copies_to_device"] = c.copies_to_device;
  out["copies_to_host"] = c.copies_to_host;
  out["copies_on_device"] = c.copies_on_device;
  out["copy_bytes"] = c.copy_bytes;
  out["graphs"] = c.graphs;
  out["signatures"] = signature_count();
  return out;
}

py::bytes drain() {
  std::vector<Record> records;
  {
    const py::gil_scoped_release release;
    records = recorder_drain();
  }
  return py::bytes(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record));
}

py::list record_dtype() {
  py::list fields;
  const auto field = [&fields](const char* name, const char* type) { fields.append(py::make_tuple(name, type)); };
  field("start_ns", "<i8");
  field("end_ns", "<i8");
  field("correlation", "<u8");
  field("value0", "<i8");
  field("value1", "<i8");
  field("signature", "<u4");
  field("thread", "<u4");
  field("stack", "<u4");
  field("core", "<i2");
  field("stream", "<i2");
  field("kind", "u1");
  field("flags", "u1");
  field("padding", "V6");
  return fields;
}

py::list shapes(const std::vector<TensorShape>& from) {
  py::list out;
  for (const TensorShape& shape : from) {
    // Python's own name of the dtype, without "torch."
    py::object dtype = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(shape.dtype)));
    const std::string text = py::str(dtype);
    out.append(py::make_tuple(text.substr(text.find('.') + 1), py::tuple(py::cast(shape.sizes))));
  }
  return out;
}

py::list signatures(uint32_t first) {
  py::list out;
  for (const SignatureEntry& entry : signatures_from(first)) {
    out.append(py::make_tuple(entry.op, shapes(entry.inputs), shapes(entry.outputs), entry.static_text, entry.compiles,
                              entry.stack));
  }
  return out;
}

py::list stacks(uint32_t first) {
  py::list out;
  for (const auto& stack : stacks_from(first)) {
    py::list frames;
    for (const StackFrame& frame : stack) frames.append(py::make_tuple(frame.file, frame.line, frame.function));
    out.append(std::move(frames));
  }
  return out;
}

py::dict fallback_counts() {
  py::dict out;
  for (const OpInfo* op : all_ops()) {
    if (const uint64_t n = op->fallbacks.load(); n != 0) out[py::str(op->name)] = n;
  }
  return out;
}

std::vector<std::string> executed_ops() {
  std::vector<std::string> names;
  for (const OpInfo* op : all_ops()) {
    if (op->executed.load()) names.push_back(op->name);
  }
  return names;
}

void record_graph(uint32_t signature, int64_t start_ns, int64_t end_ns, int core) {
  const uint32_t on = features();
  if (on == 0) return;
  count(&Counters::graphs);
  if (!(on & kRecorder)) return;
  Record record;
  record.start_ns = start_ns;
  record.end_ns = end_ns;
  record.correlation = next_correlation();
  record.signature = signature;
  record.core = static_cast<int16_t>(core);
  record.kind = RecordKind::kGraph;
  write_record(record);
}

void start_recording(bool stacks, uint32_t capacity) {
  recorder_start(stacks, capacity);
  user_ranges_start();
}

void stop_recording() {
  user_ranges_stop();
  recorder_stop();
}

std::string torch_directory() {
  const std::string file = py::str(py::module_::import("torch").attr("__file__"));
  return file.substr(0, file.rfind('/') + 1);
}

}  // namespace

PYBIND11_MODULE(_neuron_core, m) {
  register_operators();
  set_internal_directory(torch_directory());
  py::module_::import("atexit").attr("register")(
      py::cpp_function(&wait_for_autograd_workers, py::call_guard<py::gil_scoped_release>()));

  m.def("configure", &configure);
  m.def("configured", &chip_configured);
  m.def("touched", &chip_touched);
  m.def("device_count", &core_count);
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def("set_device", [](int i) { user_set_device(static_cast<c10::DeviceIndex>(i)); });
  m.def("exchange_device", [](int i) { return static_cast<int>(exchange_device(static_cast<c10::DeviceIndex>(i))); });
  m.def("set_default_device", [](int i) { set_default_device(static_cast<c10::DeviceIndex>(i)); });

  m.def("memory_stats", &memory_stats);
  m.def("reset_peak", [](int core) { check_index(static_cast<c10::DeviceIndex>(core)), reset_peak(core); });
  m.def("reset_accumulated", [](int core) { check_index(static_cast<c10::DeviceIndex>(core)), reset_accumulated(core); });
  m.def("empty_cache", [] { device_allocator()->emptyCache(); });
  m.def("pool_free_bytes", [](int core) {
    check_index(static_cast<c10::DeviceIndex>(core));
    return pool_free_bytes(core);
  });

  m.def("ledger_enable", [](bool on) {
    if (on) {
      g_features.fetch_or(kLedger);
    } else {
      g_features.fetch_and(~uint32_t{kLedger});
    }
  });
  m.def("recorder_start", &start_recording, py::arg("stacks") = false, py::arg("capacity") = 131072);
  m.def("recorder_stop", &stop_recording);
  m.def("user_range_names", &user_range_names, py::arg("first_id") = 0);
  m.def("recorder_drain", &drain);
  m.def("recorder_dtype", &record_dtype);
  m.def("recorder_dropped", &recorder_dropped);
  m.def("ops", &op_names);
  m.def("signatures", &signatures, py::arg("first_id") = 0);
  m.def("stacks", &stacks, py::arg("first_id") = 0);
  m.def("counters", &counters_dict);
  m.def("set_fallback_ops", &set_fallback_ops);
  m.def("forbid_fallbacks", &forbid_fallbacks);
  m.def("fallback_counts", &fallback_counts);
  m.def("new_fallbacks", &new_fallbacks);
  m.def("executed_ops", &executed_ops);
  m.def("clear_op_tracking", &clear_op_tracking);
  m.def("now_ns", &now_ns);

  m.def("alias_to_cpu", &aliases_of);
  m.def("wrap_from_cpu", &wrap_outputs);
  m.def("intern_graph", &graph_signature);
  m.def("record_graph", &record_graph);
  m.def("default_generator", [](int core) { return default_generator(static_cast<c10::DeviceIndex>(core)); });
}

}  // namespace neuron_lab
