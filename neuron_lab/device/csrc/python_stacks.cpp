#include <Python.h>
#include <frameobject.h>

#include "python_stacks.h"

#include <map>
#include <mutex>
#include <unordered_map>

namespace neuron_lab {
namespace {

struct CodeInfo {
  std::string file;
  std::string function;
  bool internal = false;
};

using Stack = std::vector<std::pair<PyCodeObject*, int>>;

// Guarded by the mutex, which is only ever taken while holding the GIL.
struct Table {
  std::mutex mutex;
  std::unordered_map<PyCodeObject*, CodeInfo> codes;  // holds a reference: an address must not be used twice
  std::map<Stack, int32_t> ids;
  std::vector<Stack> stacks;
  std::string internal_directory;
};

Table& table() {
  static auto* instance = new Table();  // never destroyed: the code objects must not be released after Python ended
  return *instance;
}

std::string utf8(PyObject* text) {
  const char* bytes = text != nullptr ? PyUnicode_AsUTF8(text) : nullptr;
  if (bytes == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return bytes;
}

const CodeInfo& code_info(Table& t, PyCodeObject* code) {
  if (auto found = t.codes.find(code); found != t.codes.end()) return found->second;
  Py_INCREF(code);
  CodeInfo info;
  info.file = utf8(code->co_filename);
  info.function = utf8(code->co_qualname);
  info.internal = !t.internal_directory.empty() && info.file.rfind(t.internal_directory, 0) == 0;
  return t.codes.emplace(code, std::move(info)).first->second;
}

bool interpreter_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

Stack walk(Table& t) {
  Stack stack;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());  // a new reference
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (stack.size() < kMaxFrames && !code_info(t, code).internal) {
      stack.emplace_back(code, PyFrame_GetLineNumber(frame));
    }
    Py_DECREF(code);
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  return stack;
}

}  // namespace

int32_t capture_stack() {
  // A thread without a thread state has never run Python. Asking for the GIL while the interpreter ends would
  // end the thread instead of returning.
  if (interpreter_is_ending() || PyGILState_GetThisThreadState() == nullptr) return -1;
  const PyGILState_STATE gil = PyGILState_Ensure();
  // An operator may run while an exception is being handled in C: leave it as it is.
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  int32_t id = -1;
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    Stack stack = walk(t);
    if (!stack.empty()) {
      const auto [where, inserted] = t.ids.emplace(stack, static_cast<int32_t>(t.stacks.size()));
      if (inserted) t.stacks.push_back(std::move(stack));
      id = where->second;
    }
  }
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
  return id;
}

std::vector<std::vector<StackFrame>> stacks_from(uint32_t first) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  std::vector<std::vector<StackFrame>> out;
  for (size_t i = first; i < t.stacks.size(); i++) {
    std::vector<StackFrame>& frames = out.emplace_back();
    for (const auto& [code, line] : t.stacks[i]) {
      const CodeInfo& info = code_info(t, code);
      frames.push_back({info.file, line, info.function});
    }
  }
  return out;
}

void set_internal_directory(std::string directory) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  t.internal_directory = std::move(directory);
}

}  // namespace neuron_lab
