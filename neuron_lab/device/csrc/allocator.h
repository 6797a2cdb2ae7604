// Storages of the device. Each device storage has a *twin*: a CPU storage over the same bytes, which CPU kernels see.
//
// Why a twin and not the storage itself: a view made inside a CPU kernel takes its device from the storage, and a
// kernel that resizes an `out=` argument does it through the storage's allocator. So the twin owns the bytes, the
// device storage holds a reference to its twin, and `reseat` brings the two together after a kernel moved the bytes.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include "devices.h"

namespace neuron_lab {

struct TwinStorage final : c10::StorageImpl {
  TwinStorage(c10::DataPtr data, size_t size_bytes, c10::DeviceIndex core);
  const c10::DeviceIndex core;
  size_t charged_bytes = 0;          // what the core's pool was charged for these bytes
  c10::StorageImpl* owner = nullptr;  // the device storage; a hint that is null once that is gone
};

c10::DeviceAllocator* device_allocator();

// The twin of a device storage, or null when something else made the storage's data pointer.
TwinStorage* twin_of(c10::StorageImpl* storage) noexcept;

// Turns a storage that a CPU kernel made into a device storage, in place. Raises when the core has no room.
void adopt(c10::StorageImpl* storage, c10::DeviceIndex core);

// A device storage over the bytes of a CPU storage that stays what it is and is kept alive. For results that somebody
// else may hold as CPU tensors.
c10::Storage device_storage_over(const c10::intrusive_ptr<c10::StorageImpl>& cpu, c10::DeviceIndex core);

// After a kernel: makes the device storage follow its twin when the kernel gave the twin other bytes or another size.
void reseat(c10::StorageImpl* owner, TwinStorage* twin);

// Resizes a device storage, keeping its first bytes.
void resize_storage(c10::StorageImpl* storage, size_t size_bytes);

// Raises the out-of-memory error when the core cannot hold `size_bytes` more; charges nothing.
void check_room(c10::DeviceIndex core, size_t size_bytes);

}  // namespace neuron_lab
