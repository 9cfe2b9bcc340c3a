// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_FAKE_MEMORY_H_
#define MPSD_TESTS_OPS_FAKE_MEMORY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <functional>

// Tensors of the fake device and the host tensors their kernels work on, both
// on the same memory.
namespace mpsd::ops {

inline bool IsFake(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == at::kMPS;
}

// A tensor on `device` (CPU or Meta) over the memory of one on MPS.
at::Tensor HostAlias(const at::Tensor& on_mps, at::DeviceType device);

// A tensor on MPS that owns `host`'s memory.
at::Tensor OnFake(const at::Tensor& host);

// A tensor on MPS over `base`'s memory with the shape of `host`.
at::Tensor ViewOfFake(const at::Tensor& base, const at::Tensor& host);

// Gives `on_mps` the memory and shape of `host`, which a kernel has resized.
void Adopt(const at::Tensor& on_mps, const at::Tensor& host);

// Gets the change, and what there is after it.
void SetMemoryListener(std::function<void(int64_t, int64_t)> listener);
int64_t LiveFakeBytes();

// What would make it more is refused with the text of MPS' allocator.
void SetFakeMemoryLimit(int64_t bytes);

// For c10::SetAllocator: memory that torch asks for by itself.
c10::Allocator* FakeAllocator();

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_FAKE_MEMORY_H_
