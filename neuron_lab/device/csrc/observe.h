// One operator call as seen by the ledger and the recorder. Costs one relaxed load when both are off.
#pragma once

#include <memory>
#include <optional>

#include "clock.h"
#include "op_table.h"
#include "python_stacks.h"
#include "recorder.h"
#include "signatures.h"

namespace neuron_lab {

class Observation {
 public:
  explicit Observation(OpInfo& op) noexcept : op_(op), features_(features()) {}
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  bool active() const noexcept { return features_ != 0; }
  bool fallback() const noexcept { return op_.falls_back.load(std::memory_order_relaxed); }

  // `visit` is called with a hasher, and with a describer too when the signature is new.
  template <class Visit>
  void begin(Visit&& visit) {
    SignatureHasher hasher(op_.id);
    visit(hasher);
    hash_ = hasher.result();
    signature_ = find_signature(hash_);
    if (signature_ == kNoSignature) {
      pending_ = std::make_unique<SignatureEntry>();
      SignatureDescriber describer(*pending_);
      visit(describer);
    }
    if (features_ & kRecorder) start_ns_ = now_ns();
  }

  void output(const at::TensorBase& t) {
    if (pending_ && t.defined()) pending_->outputs.push_back(shape_of(t));
  }
  void moved(uint64_t size_bytes) noexcept { moved_bytes_ += size_bytes; }

  void end(int core, RecordKind kind = RecordKind::kOperator) { finish(core, kind, 0); }
  void raised(int core, RecordKind kind = RecordKind::kOperator) noexcept {
    if (features_ & kRecorder) write(core, kind, kRaised, -1);
  }

 private:
  void finish(int core, RecordKind kind, uint8_t flags);
  void write(int core, RecordKind kind, uint8_t flags, int32_t stack) noexcept;

  OpInfo& op_;
  const uint32_t features_;
  uint32_t signature_ = kNoSignature;
  uint64_t hash_ = 0;
  int64_t start_ns_ = 0;
  uint64_t moved_bytes_ = 0;
  std::unique_ptr<SignatureEntry> pending_;
};

}  // namespace neuron_lab
