// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/fake_memory.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>

namespace mpsd::ops {
namespace {

const c10::Device kFake(c10::kMPS, 0);

std::atomic<int64_t> live_bytes{0};
std::mutex listener_mutex;
std::function<void(int64_t, int64_t)>& Listener() {
  static std::function<void(int64_t, int64_t)> listener;
  return listener;
}

std::atomic<int64_t> limit{std::numeric_limits<int64_t>::max()};

void CheckLimit(int64_t more) {
  TORCH_CHECK(live_bytes + more <= limit,
              "MPS backend out of memory (MPS allocated: ", live_bytes.load(),
              " bytes, other allocations: 0 bytes, max allowed: ", limit.load(),
              " bytes). Tried to allocate ", more, " bytes on private pool.");
}

void Count(int64_t change) {
  const int64_t live = live_bytes += change;
  std::lock_guard<std::mutex> lock(listener_mutex);
  if (Listener()) Listener()(change, live);
}

// Keeps the host tensor alive whose memory a tensor on the device uses.
struct Owner {
  at::Tensor host;
  int64_t bytes;
};

void Release(void* context) {
  std::unique_ptr<Owner> owner(static_cast<Owner*>(context));
  Count(-owner->bytes);
}

// Where a tensor without memory would lie: told apart by it, as others are,
// and never read.
void* Nowhere(int64_t bytes) {
  static std::atomic<uintptr_t> next{uintptr_t{1} << 46};
  return reinterpret_cast<void*>(next.fetch_add(bytes + 64));
}

c10::Storage Own(const at::Tensor& host) {
  const auto bytes = static_cast<int64_t>(host.storage().nbytes());
  CheckLimit(bytes);
  Count(bytes);
  void* data = host.is_meta() ? Nowhere(bytes)
                              : const_cast<void*>(host.storage().data());
  return c10::Storage(
      c10::Storage::use_byte_size_t(), bytes,
      c10::DataPtr(data, new Owner{host, bytes}, &Release, kFake),
      FakeAllocator(), /*resizable=*/true);
}

at::Tensor Shaped(c10::Storage storage, c10::DispatchKey key,
                  const at::Tensor& like) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      like.sizes(), like.strides(), like.storage_offset());
  return tensor;
}

class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const at::Tensor host = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
    CheckLimit(static_cast<int64_t>(bytes));
    Count(bytes);
    return {const_cast<void*>(host.storage().data()),
            new Owner{host, static_cast<int64_t>(bytes)}, &Release, kFake};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

at::Tensor HostAlias(const at::Tensor& on_mps, at::DeviceType device) {
  const c10::Storage& storage = on_mps.storage();
  void* data =
      device == at::kMeta ? nullptr : const_cast<void*>(storage.data());
  return Shaped(
      c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(),
                   c10::DataPtr(data, device), c10::GetAllocator(device),
                   /*resizable=*/true),
      device == at::kMeta ? c10::DispatchKey::Meta : c10::DispatchKey::CPU,
      on_mps);
}

at::Tensor OnFake(const at::Tensor& host) {
  return Shaped(Own(host), c10::DispatchKey::MPS, host);
}

at::Tensor ViewOfFake(const at::Tensor& base, const at::Tensor& host) {
  return Shaped(c10::Storage(base.storage()), c10::DispatchKey::MPS, host);
}

void Adopt(const at::Tensor& on_mps, const at::Tensor& host) {
  c10::TensorImpl* impl = on_mps.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(Own(host));
  impl->set_sizes_and_strides(host.sizes(), host.strides(),
                              host.storage_offset());
}

void SetMemoryListener(std::function<void(int64_t, int64_t)> listener) {
  std::lock_guard<std::mutex> lock(listener_mutex);
  Listener() = std::move(listener);
}

int64_t LiveFakeBytes() { return live_bytes; }

void SetFakeMemoryLimit(int64_t bytes) { limit = bytes; }

c10::Allocator* FakeAllocator() {
  static Allocator allocator;
  return &allocator;
}

}  // namespace mpsd::ops
