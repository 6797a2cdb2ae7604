#include <torch_headers.h>

#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>

#include <array>
#include <cstring>
#include <mutex>

#include "chip_memory.h"

namespace neuron_lab {
namespace {

constexpr size_t kStateBytes = 16;
constexpr size_t kSeedBytes = 8;
constexpr int kMaxCores = 128;

uint64_t mixed(uint64_t seed, uint64_t offset) {
  if (offset == 0) return seed;  // the first draw after seeding gives the CPU's numbers for that seed
  uint64_t z = seed + offset * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

NeuronGenerator::NeuronGenerator(c10::DeviceIndex index)
    : c10::GeneratorImpl(core_device(index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      seed_(c10::default_rng_seed_val) {}

void NeuronGenerator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t NeuronGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void NeuronGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.device().type() == c10::kCPU && state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                  state.is_contiguous(),
              "RNG state must be a contiguous CPU uint8 tensor");
  const auto bytes = static_cast<size_t>(state.numel());
  TORCH_CHECK(bytes == kStateBytes || bytes == kSeedBytes, "RNG state is wrong size: expected 16 bytes, got ", bytes);
  const auto* data = static_cast<const uint8_t*>(state.data());
  offset_ = 0;
  std::memcpy(&seed_, data, sizeof seed_);
  if (bytes == kStateBytes) std::memcpy(&offset_, data + kSeedBytes, sizeof offset_);
}

c10::intrusive_ptr<c10::TensorImpl> NeuronGenerator::get_state() const {
  at::TensorBase state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, c10::kByte);
  auto* data = static_cast<uint8_t*>(state.mutable_data_ptr());
  std::memcpy(data, &seed_, sizeof seed_);
  std::memcpy(data + kSeedBytes, &offset_, sizeof offset_);
  return state.getIntrusivePtr();
}

NeuronGenerator* NeuronGenerator::clone_impl() const {
  auto* copy = new NeuronGenerator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  check_index(index);
  static auto* mutex = new std::mutex();  // never destroyed, like the generators
  static auto* generators = new std::array<at::Generator, kMaxCores>();
  std::lock_guard lock(*mutex);
  at::Generator& generator = (*generators)[index];
  if (!generator.defined()) {
    generator = at::make_generator<NeuronGenerator>(index);
    generator.seed();
  }
  return generator;
}

at::Generator GeneratorDraw::begin(const at::Generator& generator) {
  if (generator.device().type() != kNeuron) return generator;
  auto* impl = static_cast<NeuronGenerator*>(generator.unsafeGetGeneratorImpl());
  std::lock_guard lock(impl->mutex_);
  return at::detail::createCPUGenerator(mixed(impl->current_seed(), impl->get_offset()));
}

void GeneratorDraw::end(at::Generator& generator) {
  if (generator.device().type() != kNeuron) return;
  auto* impl = static_cast<NeuronGenerator*>(generator.unsafeGetGeneratorImpl());
  std::lock_guard lock(impl->mutex_);
  impl->set_offset(impl->get_offset() + 4);  // a multiple of four, as Philox counters move
}

}  // namespace neuron_lab
