#include <torch_headers.h>

#include "boxed.h"

#include <ATen/ops/clone_ops.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <unordered_set>

#include "cpu_section.h"
#include "generator.h"
#include "observe.h"

namespace neuron_lab {
namespace {

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Operators whose contract on every device allows CPU operands of any size beside device ones.
const std::unordered_set<std::string>& cpu_operand_ops() {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::index.Tensor",       "aten::index.Tensor_out",     "aten::_unsafe_index.Tensor",
      "aten::index_put_",         "aten::index_put",            "aten::index_put.out",
      "aten::_index_put_impl_",   "aten::_index_put_impl",      "aten::_index_put_impl.out",
      "aten::_unsafe_index_put",  "aten::_pack_padded_sequence", "aten::_pack_padded_sequence.out",
      "aten::copy_",              "aten::copy",                 "aten::copy.out",
      "aten::_copy_from",         "aten::_copy_from_and_resize", "aten::_copy_from.out",
      "aten::_foreach_copy_",     "aten::_foreach_copy",        "aten::_foreach_copy.out",
      "aten::_ctc_loss.Tensor",   "aten::_ctc_loss_backward.Tensor",
      "aten::_fused_adam_.tensor_lr",
  };
  return *names;
}

bool may_hold_tensor(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
      return may_hold_tensor(*type.containedType(0));
    default:
      return false;
  }
}

bool holds_kind(const c10::Type& type, c10::TypeKind kind) {
  if (type.kind() == kind) return true;
  return type.kind() == c10::TypeKind::OptionalType && type.containedType(0)->kind() == kind;
}

struct Operand {
  at::Tensor alias;
  at::Tensor original;
  TwinStorage* twin;  // null when our allocator did not make the storage
  bool written;
};

// A storage that must not be relabelled, or one that was relabelled already in this call.
struct KnownStorage {
  const c10::StorageImpl* cpu;
  c10::Storage device;
};

class Call {
 public:
  explicit Call(const OpPlan& plan) : plan_(plan) {}

  void prepare(torch::jit::Stack* stack) {
    c10::IValue* arguments = stack->data() + (stack->size() - plan_.arguments);
    for (const OpPlan::Slot& slot : plan_.slots) {
      c10::IValue& value = arguments[slot.index];
      if (slot.may_hold_tensor) {
        replace_tensors(value, slot);
      } else if (slot.is_device) {
        if (value.isDevice()) replace_device(value);
      } else if (value.isGenerator()) {
        generator_ = value.toGenerator();
        value = draws_.begin(generator_);
      }
    }
    if (core_ < 0) core_ = current_device();
    if (operands_.empty()) check_factory(arguments);
  }

  template <class Visitor>
  void describe(Visitor& visitor, const c10::IValue* arguments) const {
    size_t next_slot = 0;
    for (size_t i = 0; i < plan_.arguments; i++) {
      const OpPlan::Slot* slot = nullptr;
      if (next_slot < plan_.slots.size() && plan_.slots[next_slot].index == i) slot = &plan_.slots[next_slot++];
      const c10::IValue& value = arguments[i];
      if (slot == nullptr) {
        visitor.value(plan_.names[i].c_str(), value);
      } else if (slot->may_hold_tensor) {
        describe_tensors(visitor, value);
      }
    }
  }

  void finish(torch::jit::Stack* stack) {
    for (const Operand& operand : operands_) {
      if (operand.written) settle(operand);
    }
    c10::IValue* results = stack->data() + (stack->size() - plan_.returns);
    for (size_t i = 0; i < plan_.returns; i++) give_back(results[i]);
    if (generator_.defined()) draws_.end(generator_);
  }

  // A kernel that raised may have resized an output before; the pair of storages must not come apart.
  void abandon() noexcept {
    for (const Operand& operand : operands_) {
      if (!operand.written) continue;
      try {
        settle(operand);
      } catch (const std::exception&) {
        // The kernel's own error is on its way to the user; this one could only hide it.
      }
    }
  }

  void recycle_aliases() noexcept {
    for (Operand& operand : operands_) recycle(std::move(operand.alias));
  }

  uint64_t moved_bytes() const {
    uint64_t total = 0;
    for (const Operand& operand : operands_) total += operand.original.nbytes();
    return total;
  }

  template <class Visit>
  static void for_each_result(const c10::IValue& value, Visit&& visit) {
    if (value.isTensor()) {
      visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) visit(t);
    }
  }

  c10::DeviceIndex core() const { return core_; }

 private:
  template <class Visitor>
  static void describe_tensors(Visitor& visitor, const c10::IValue& value) {
    if (value.isTensor()) {
      visitor.tensor(value.toTensor());
    } else if (value.isList()) {
      for (const c10::IValue& item : value.toListRef()) {
        if (item.isTensor()) visitor.tensor(item.toTensor());
      }
    }
  }

  void replace_device(c10::IValue& value) {
    const c10::Device device = value.toDevice();
    if (device.type() != kNeuron) {
      stays_elsewhere_ = true;  // the caller asks for a result that is not on the device
      return;
    }
    core_ = resolve_index(device);
    value = c10::Device(c10::kCPU);
  }

  // Takes the argument, so that holding the original costs no reference count.
  at::Tensor replace(at::Tensor t, const OpPlan::Slot& slot, int position) {
    if (!t.defined()) return t;
    const c10::Device device = t.device();
    if (device.type() == kNeuron) {
      if (core_ < 0) {
        core_ = device.index();
      } else if (core_ != device.index()) {
        TORCH_CHECK(plan_.accepts_cpu_tensors, "Expected all tensors to be on the same device, but found at least two "
                    "devices, neuron:", static_cast<int>(core_), " and neuron:", static_cast<int>(device.index()),
                    "! (argument ", plan_.names[slot.index], " of ", plan_.info->name, ")");
      }
      Operand& operand = operands_.emplace_back();
      operand.alias = cpu_alias(t);
      operand.twin = twin_of(t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
      operand.original = std::move(t);
      operand.written = slot.written;
      return operand.alias;
    }
    if (device.type() == c10::kCPU) {
      if (t.dim() != 0 && !plan_.accepts_cpu_tensors) raise_cpu_operand(slot, position);
      if (t.has_storage()) known_.push_back({t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), {}});
      return t;
    }
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, neuron and ",
                device, "! (argument ", plan_.names[slot.index], " of ", plan_.info->name, ")");
  }

  [[noreturn]] void raise_cpu_operand(const OpPlan::Slot& slot, int position) const {
    TORCH_CHECK(false, "Non-scalar tensor arg", slot.index, position < 0 ? "" : "[" + std::to_string(position) + "]",
                " is on cpu device, expected neuron (argument '", plan_.names[slot.index], "' of ", plan_.info->name,
                "); move it with .to('neuron')");
  }

  void replace_tensors(c10::IValue& value, const OpPlan::Slot& slot) {
    if (value.isTensor()) {
      value = c10::IValue(replace(std::move(value).toTensor(), slot, -1));
    } else if (value.isTensorList()) {
      // The list may be the caller's own, so it is copied, never written.
      c10::List<at::Tensor> aliases;
      const auto originals = value.toListRef();
      aliases.reserve(originals.size());
      for (size_t i = 0; i < originals.size(); i++) {
        aliases.push_back(replace(originals[i].toTensor(), slot, static_cast<int>(i)));
      }
      value = c10::IValue(std::move(aliases));
    } else if (value.isList()) {
      c10::List<std::optional<at::Tensor>> aliases;
      const auto originals = value.toListRef();
      aliases.reserve(originals.size());
      for (size_t i = 0; i < originals.size(); i++) {
        if (originals[i].isTensor()) {
          aliases.push_back(replace(originals[i].toTensor(), slot, static_cast<int>(i)));
        } else {
          aliases.push_back(std::nullopt);
        }
      }
      value = c10::IValue(std::move(aliases));
    }
  }

  // A factory's result is charged when it is relabelled; by then the host would have had to hold it.
  void check_factory(const c10::IValue* arguments) const {
    if (plan_.pin_argument >= 0 && !stays_elsewhere_) {
      const c10::IValue& pin = arguments[plan_.pin_argument];
      TORCH_CHECK(!pin.isBool() || !pin.toBool(), "Only dense CPU tensors can be pinned, not neuron tensors");
    }
    if (plan_.size_argument < 0 || stays_elsewhere_) return;
    const c10::IValue& size = arguments[plan_.size_argument];
    if (!size.isIntList()) return;
    auto dtype = c10::typeMetaToScalarType(c10::get_default_dtype());
    if (plan_.dtype_argument >= 0 && arguments[plan_.dtype_argument].isInt()) {
      dtype = static_cast<c10::ScalarType>(arguments[plan_.dtype_argument].toInt());
    }
    int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
    for (int64_t extent : size.toIntVector()) {
      if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return;  // the kernel says it better
    }
    check_room(core_, static_cast<size_t>(bytes));
  }

  // Brings a written argument's original up to date with what the kernel did to its alias.
  void settle(const Operand& operand) {
    const c10::TensorImpl* alias = operand.alias.unsafeGetTensorImpl();
    c10::TensorImpl* original = operand.original.unsafeGetTensorImpl();
    c10::StorageImpl* owner = original->unsafe_storage().unsafeGetStorageImpl();
    c10::StorageImpl* now = alias->unsafe_storage().unsafeGetStorageImpl();
    if (operand.twin != nullptr && now == operand.twin) {
      reseat(owner, operand.twin);
    } else if (operand.twin != nullptr) {
      replace_storage(original, device_storage(now, operand.original.device().index()));
    }
    copy_geometry(alias, original);
  }

  const c10::Storage* known(const c10::StorageImpl* cpu) const {
    for (const KnownStorage& k : known_) {
      if (k.cpu == cpu) return &k.device;
    }
    return nullptr;
  }

  c10::Storage device_storage(c10::StorageImpl* cpu, c10::DeviceIndex core) {
    if (const c10::Storage* k = known(cpu); k != nullptr && *k) return *k;
    for (const Operand& operand : operands_) {
      if (operand.twin == cpu) return operand.original.storage();
    }
    adopt(cpu, core);
    c10::Storage storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(cpu));
    known_.push_back({cpu, storage});
    return storage;
  }

  at::Tensor relabel(at::Tensor t) {
    if (!t.defined() || t.device().type() == kNeuron) return t;
    c10::TensorImpl* impl = t.unsafeGetTensorImpl();
    for (const Operand& operand : operands_) {
      if (operand.alias.unsafeGetTensorImpl() == impl) return operand.original;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        t.layout() == c10::kStrided && impl->has_storage() && !t.is_quantized(), plan_.info->name,
        " makes a tensor of layout ", t.layout(), t.is_quantized() ? " (quantized)" : "",
        ", which the neuron device does not hold (it holds strided tensors). Do this part on the CPU: "
        "move the inputs with .cpu(), and the dense result back with .to('neuron')");
    c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    const c10::Storage* k = known(storage);
    if (k != nullptr && !*k) return t;  // a CPU operand that the operator passes through
    if (stays_elsewhere_) return t;
    for (const Operand& operand : operands_) {
      const c10::TensorImpl* alias = operand.alias.unsafeGetTensorImpl();
      if (alias->unsafe_storage().unsafeGetStorageImpl() == storage) {
        return device_view(t, operand.original.storage(), core_);
      }
    }
    // Does nobody else hold it? A Python kernel may keep what it returns; that stays a CPU tensor.
    const bool shared = t.use_count() > 1 || impl->pyobj_slot()->load_pyobj() != nullptr;
    if (k == nullptr && shared) {
      at::Tensor copy = at::_ops::clone::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), t, std::nullopt);
      return relabel(std::move(copy));
    }
    if (k == nullptr) {
      adopt(storage, core_);
      if (impl->unsafe_storage().use_count() > 1) {
        known_.push_back({storage, c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage))});
      }
    }
    if (shared) return device_view(t, impl->unsafe_storage(), core_);
    label_as_device(impl, core_);
    return t;
  }

  void give_back(c10::IValue& value) {
    if (value.isTensor()) {
      value = c10::IValue(relabel(std::move(value).toTensor()));
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> results = value.toTensorVector();
      value = c10::IValue();  // drops the kernel's own list, so that fresh results are held once
      for (at::Tensor& t : results) t = relabel(std::move(t));
      value = c10::IValue(std::move(results));
    }
  }

  const OpPlan& plan_;
  c10::DeviceIndex core_ = -1;
  bool stays_elsewhere_ = false;
  at::Generator generator_;
  GeneratorDraw draws_;
  c10::SmallVector<Operand, 6> operands_;
  c10::SmallVector<KnownStorage, 4> known_;
};

void run_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const CpuSection section;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

[[noreturn]] void raise_forbidden(const OpPlan& plan) {
  TORCH_CHECK(false, plan.info->name, " has no kernel on the neuron device (per the April 2026 list) and host "
              "fallbacks are forbidden here. Allow them, or use an operator the device has");
}

}  // namespace

OpPlan::OpPlan(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string name = full_name(op.operator_name());
  info = &op_info(name);
  accepts_cpu_tensors = cpu_operand_ops().count(name) != 0;
  arguments = schema.arguments().size();
  returns = schema.returns().size();
  for (size_t i = 0; i < arguments; i++) {
    const c10::Argument& argument = schema.arguments()[i];
    names.push_back(argument.name());
    // The real type tells ints that stand for devices and generators from plain ones.
    const c10::Type& type = *argument.real_type();
    const bool tensor = ::neuron_lab::may_hold_tensor(type);
    const bool device = holds_kind(type, c10::TypeKind::DeviceObjType);
    const bool generator = holds_kind(type, c10::TypeKind::GeneratorType);
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (tensor || device || generator) {
      slots.push_back({static_cast<uint16_t>(i), tensor, device, generator, written});
    }
    if (argument.name() == "size") size_argument = static_cast<int>(i);
    if (argument.name() == "dtype") dtype_argument = static_cast<int>(i);
    if (argument.name() == "pin_memory") pin_argument = static_cast<int>(i);
  }
}

void run_boxed(const OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Observation seen(*plan.info);
  if (seen.fallback() && fallbacks_forbidden()) raise_forbidden(plan);
  Call call(plan);
  call.prepare(stack);
  if (seen.active()) {
    const c10::IValue* arguments = stack->data() + (stack->size() - plan.arguments);
    seen.begin([&](auto& visitor) { call.describe(visitor, arguments); });
    if (seen.fallback()) seen.moved(call.moved_bytes());
  }
  try {
    run_kernel(op, stack);
    call.finish(stack);
  } catch (...) {
    call.abandon();
    call.recycle_aliases();
    if (seen.active()) seen.raised(call.core());
    throw;
  }
  call.recycle_aliases();
  if (seen.active()) {
    const c10::IValue* results = stack->data() + (stack->size() - plan.returns);
    for (size_t i = 0; i < plan.returns; i++) {
      Call::for_each_result(results[i], [&](const at::Tensor& t) {
        seen.output(t);
        if (t.defined() && seen.fallback()) seen.moved(t.nbytes());
      });
    }
    seen.end(call.core());
  }
}

}  // namespace neuron_lab
