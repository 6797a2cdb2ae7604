// The signature table: what the real device compiles a kernel for. Operator, input dtypes and shapes, and every other
// argument by value. A record names a signature by its number, so a record's size does not depend on its shapes.
//
// Signatures are told apart by a 64-bit hash; with a million signatures the chance of one collision is about 3e-8.
#pragma once

#include <ATen/core/TensorBase.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace neuron_lab {

constexpr uint32_t kNoSignature = UINT32_MAX;

struct TensorShape {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes;
};

struct SignatureEntry {
  uint32_t op = 0;
  std::vector<TensorShape> inputs;
  std::vector<TensorShape> outputs;
  std::string static_text;
  bool compiles = true;
  int32_t stack = -1;
};

// Both visitors are given the same sequence of arguments: the hasher on every call, the describer once per signature.
class SignatureHasher {
 public:
  explicit SignatureHasher(uint32_t op) : state_(0x9E3779B97F4A7C15ull ^ op) {}
  void tensor(const at::TensorBase& t) {
    if (!t.defined()) return mix(0x55);
    const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
    const auto sizes = impl->sizes();
    mix((static_cast<uint64_t>(c10::typeMetaToScalarType(impl->dtype())) << 8) | sizes.size());
    for (int64_t size : sizes) mix(static_cast<uint64_t>(size));
  }
  void ints(const char*, c10::IntArrayRef values) {
    mix(values.size());
    for (int64_t v : values) mix(static_cast<uint64_t>(v));
  }
  void number(const char*, int64_t value) { mix(static_cast<uint64_t>(value)); }
  void value(const char*, const c10::IValue& v);
  uint64_t result() const { return state_ == 0 ? 1 : state_; }  // 0 marks an empty slot

 private:
  void mix(uint64_t v) {
    const auto product = static_cast<unsigned __int128>(state_ ^ v) * 0xD6E8FEB86659FD93ull;
    state_ = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ (v << 1);
  }
  uint64_t state_;
};

class SignatureDescriber {
 public:
  explicit SignatureDescriber(SignatureEntry& entry) : entry_(entry) {}
  void tensor(const at::TensorBase& t);
  void ints(const char* name, c10::IntArrayRef values);
  void number(const char* name, int64_t value);
  void value(const char* name, const c10::IValue& v);

 private:
  void text(const char* name, const std::string& value);
  SignatureEntry& entry_;
};

TensorShape shape_of(const at::TensorBase& t);

uint32_t find_signature(uint64_t hash);  // kNoSignature when unknown; looks in the thread's cache first
// Adds it unless another thread was faster; `is_new` says who was.
uint32_t add_signature(uint64_t hash, SignatureEntry entry, bool& is_new);
void set_signature_stack(uint32_t signature, int32_t stack);
uint32_t signature_count();
uint64_t kernel_count();  // signatures that compile
std::vector<SignatureEntry> signatures_from(uint32_t first);
// A compiled graph's signature: one per name.
uint32_t graph_signature(const std::string& name, int64_t node_count);

}  // namespace neuron_lab
