// Leaving a process whose last act was `loss.backward()`.
#pragma once

namespace neuron_lab {

// Told by the device guard: torch's autograd workers set their device when they start.
void note_device_thread() noexcept;

// Waits until autograd's worker threads have let go of what they last ran. `backward()` returns when the gradients are
// there, while a worker may still drop the last references to Python objects. If the interpreter ends in between, the
// worker asks for the GIL, is ended instead, and the process aborts. Call it before the interpreter ends, without the
// GIL.
void wait_for_autograd_workers();

}  // namespace neuron_lab
