#include <torch_headers.h>

#include "observe.h"

namespace neuron_lab {

void Observation::finish(int core, RecordKind kind, uint8_t flags) {
  const int64_t end_ns = features_ & kRecorder ? now_ns() : 0;
  const bool falls_back = kind == RecordKind::kOperator && fallback();
  const bool compiles = kind == RecordKind::kOperator && !falls_back && op_.compiles.load(std::memory_order_relaxed);
  bool is_new = false;
  if (pending_) {
    pending_->op = op_.id;
    pending_->compiles = compiles;
    signature_ = add_signature(hash_, std::move(*pending_), is_new);
    pending_.reset();
  }
  int32_t stack = -1;
  if (is_new || falls_back || (features_ & kStacks)) stack = capture_stack();
  if (is_new && stack >= 0) set_signature_stack(signature_, stack);

  switch (kind) {
    case RecordKind::kCopyToDevice:
      count(&Counters::copies_to_device);
      count(&Counters::copy_bytes, moved_bytes_);
      break;
    case RecordKind::kCopyToHost:
      count(&Counters::copies_to_host);
      count(&Counters::copy_bytes, moved_bytes_);
      break;
    case RecordKind::kCopyOnDevice:
      count(&Counters::copies_on_device);
      count(&Counters::copy_bytes, moved_bytes_);
      break;
    default:
      count(&Counters::operators);
      if (compiles && !is_new) count(&Counters::eager_kernel_hits);
  }
  if (falls_back) {
    flags |= kFallback;
    op_.fallbacks.fetch_add(1, std::memory_order_relaxed);
    count(&Counters::fallbacks);
    count(&Counters::fallback_bytes, moved_bytes_);
  } else if (!op_.executed.load(std::memory_order_relaxed)) {
    op_.executed.store(true, std::memory_order_relaxed);
  }
  if (compiles && is_new) flags |= kNewKernel;
  if (features_ & kRecorder) {
    Record record;
    record.start_ns = start_ns_;
    record.end_ns = end_ns;
    record.correlation = next_correlation();
    record.size_bytes = static_cast<int64_t>(moved_bytes_);
    record.signature = signature_;
    record.stack = stack < 0 ? kNoStack : static_cast<uint32_t>(stack);
    record.core = static_cast<int16_t>(core);
    record.kind = kind;
    record.flags = flags;
    write_record(record);
  }
}

void Observation::write(int core, RecordKind kind, uint8_t flags, int32_t stack) noexcept {
  Record record;
  record.start_ns = start_ns_;
  record.end_ns = now_ns();
  record.correlation = next_correlation();
  record.signature = signature_;
  record.stack = stack < 0 ? kNoStack : static_cast<uint32_t>(stack);
  record.core = static_cast<int16_t>(core);
  record.kind = kind;
  record.flags = flags;
  write_record(record);
}

}  // namespace neuron_lab
