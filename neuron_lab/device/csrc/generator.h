// Random numbers of the device. A draw without `generator=` uses the CPU's default generator, so a seed gives the CPU's
// numbers; this state is used only by a draw that is given a neuron generator.
#pragma once

#include <ATen/core/Generator.h>

#include "devices.h"

namespace neuron_lab {

// State: 16 bytes, a seed (uint64) and an offset (int64), little endian.
struct NeuronGenerator final : c10::GeneratorImpl {
  explicit NeuronGenerator(c10::DeviceIndex core);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  NeuronGenerator* clone_impl() const override;
  uint64_t seed_;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex core);

// One operator's use of an explicit generator: hands out a CPU generator seeded from (seed, offset), and moves the
// offset on afterwards, so that a state restored gives the same numbers again.
class GeneratorDraw {
 public:
  at::Generator begin(const at::Generator& generator);
  void end(at::Generator& generator);
};

}  // namespace neuron_lab
