// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/fake_mps.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <atomic>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/ops/fake_memory.h"
#include "tests/ops/host_kernels.h"
#include "tests/ops/operators.h"

namespace mpsd::ops {

void KeepFakeHooks();

namespace {

using c10::IValue;
using torch::jit::Stack;

struct State {
  std::mutex mutex;
  std::atomic<KernelObserver*> observer{nullptr};
  std::map<std::string, std::function<void(at::Tensor&)>> spoilt;
  std::atomic<Execution> execution{Execution::kCompute};
  std::atomic<int64_t> commits{0}, waits{0};
};

State& TheState() {
  static State* state = new State;
  return *state;
}

// One call of a kernel: arguments to the host, results back.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack& stack)
      : op_(op),
        stack_(stack),
        meta_(TheState().execution == Execution::kShapesOnly) {}

  void Run(bool has_mps_kernel) {
    const size_t count = op_.schema().arguments().size();
    const auto arguments = torch::jit::last(stack_, count);
    const Stack inputs(arguments.begin(), arguments.end());
    torch::jit::drop(stack_, count);
    Stack host;
    for (const IValue& value : inputs) host.push_back(ToHost(value));
    {
      at::AutoDispatchBelowAutograd below;
      RunOnHost(op_, meta_, host);
    }
    Spoil(inputs, host);
    TakeBack();
    Stack outputs;
    for (size_t i = 0; i < host.size(); ++i) {
      const IValue* written = WrittenArgument(i, inputs);
      outputs.push_back(written != nullptr ? *written : FromHost(host[i]));
    }
    if (meta_) ZeroOnHost(inputs, outputs);
    stack_.insert(stack_.end(), outputs.begin(), outputs.end());
    Tell({op_, inputs, outputs, has_mps_kernel});
  }

 private:
  struct Alias {
    at::Tensor on_mps, host;
  };

  at::DeviceType host_device() const { return meta_ ? at::kMeta : at::kCPU; }

  at::Tensor ToHost(const at::Tensor& tensor) {
    if (!IsFake(tensor)) {
      // The other side of a copy.
      const bool number = tensor.defined() && tensor.dim() == 0;
      return meta_ && tensor.defined() && !number ? tensor.to(at::kMeta)
                                                  : tensor;
    }
    for (const Alias& alias : aliases_) {
      if (alias.on_mps.is_same(tensor)) return alias.host;
    }
    aliases_.push_back({tensor, HostAlias(tensor, host_device())});
    return aliases_.back().host;
  }

  IValue ToHost(const IValue& value) {
    if (value.isTensor()) return ToHost(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : value.toTensorVector()) {
        list.push_back(ToHost(t));
      }
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& t :
           value.toOptionalTensorVector()) {
        list.push_back(t ? std::optional(ToHost(*t)) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == at::kMPS) {
      return c10::Device(host_device());
    }
    return value;
  }

  // Arguments that a kernel has given other memory or another shape.
  void TakeBack() {
    for (const Alias& alias : aliases_) {
      const bool moved = !meta_ && alias.host.storage().data() !=
                                       alias.on_mps.storage().data();
      if (moved || alias.host.sizes() != alias.on_mps.sizes()) {
        Adopt(alias.on_mps, alias.host);
      }
    }
  }

  at::Tensor FromHost(const at::Tensor& host) {
    if (!host.defined()) return host;
    for (const Alias& alias : aliases_) {
      if (host.is_same(alias.host)) return alias.on_mps;
    }
    for (const Alias& alias : aliases_) {
      if (host.storage().unsafeGetStorageImpl() ==
          alias.host.storage().unsafeGetStorageImpl()) {
        return ViewOfFake(alias.on_mps, host);
      }
    }
    return OnFake(host);
  }

  // The argument that result `i` is, where the schema says so.
  const IValue* WrittenArgument(size_t i, const Stack& inputs) const {
    const c10::AliasInfo* result = op_.schema().returns()[i].alias_info();
    if (result == nullptr || !result->isWrite()) return nullptr;
    const auto& arguments = op_.schema().arguments();
    for (size_t j = 0; j < arguments.size(); ++j) {
      const c10::AliasInfo* argument = arguments[j].alias_info();
      if (argument != nullptr && argument->isWrite() &&
          argument->beforeSets() == result->beforeSets()) {
        return &inputs[j];
      }
    }
    return nullptr;
  }

  // Nothing is read back from tensors that have no memory.
  static void ZeroOnHost(const Stack& inputs, const Stack& outputs) {
    for (const IValue& value : outputs) {
      if (!value.isTensor() || !value.toTensor().is_cpu()) continue;
      for (const IValue& input : inputs) {
        if (input.isTensor() && input.toTensor().is_same(value.toTensor())) {
          value.toTensor().zero_();
        }
      }
    }
  }

  IValue FromHost(const IValue& value) {
    if (value.isTensor()) return FromHost(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) {
      list.push_back(FromHost(t));
    }
    return list;
  }

  void Spoil(const Stack& inputs, Stack& results) {
    std::lock_guard<std::mutex> lock(TheState().mutex);
    const auto& spoilt = TheState().spoilt;
    if (spoilt.empty()) return;
    auto it = spoilt.find(op_.schema().name());
    if (it == spoilt.end()) it = spoilt.find(TypedName(op_, inputs));
    if (it == spoilt.end()) return;
    for (IValue& value : results) {
      if (value.isScalar()) {  // read back
        at::Tensor number = c10::scalar_to_tensor(value.toScalar());
        it->second(number);
        value = number.item();
      }
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      at::Tensor tensor = value.toTensor();
      it->second(tensor);
    }
    if (!results.empty()) return;
    // Written in place without a result, as the fused optimizer's are.
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto* alias = op_.schema().arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      for (const at::Tensor& t : TensorsIn(inputs[i])) {
        at::Tensor tensor = ToHost(t);
        it->second(tensor);
      }
    }
  }

  static std::vector<at::Tensor> TensorsIn(const IValue& value) {
    if (value.isTensorList()) return value.toTensorVector();
    if (value.isTensor()) return {value.toTensor()};
    return {};
  }

  void Tell(const Kernel& kernel) {
    std::lock_guard<std::mutex> lock(TheState().mutex);
    KernelObserver* observer = TheState().observer;
    if (observer != nullptr) observer->OnKernel(kernel);
  }

  const c10::OperatorHandle& op_;
  Stack& stack_;
  const bool meta_;
  std::vector<Alias> aliases_;
};

void RunKernel(const c10::OperatorHandle& op, Stack* stack) {
  Call(op, *stack).Run(/*has_mps_kernel=*/true);
}

// Where a Mac says "not currently implemented for the MPS device".
void RunFallback(const c10::OperatorHandle& op, Stack* stack) {
  Call(op, *stack).Run(/*has_mps_kernel=*/false);
}

void RegisterKernels() {
  auto* aten = new torch::Library(torch::Library::IMPL, "aten",
                                  c10::DispatchKey::MPS, __FILE__, __LINE__);
  std::ifstream table(MPSD_MPS_OPS_FILE);
  TORCH_CHECK(table.good(), "cannot read ", MPSD_MPS_OPS_FILE);
  for (std::string name; std::getline(table, name);) {
    if (name.empty() || name[0] == '#') continue;
    aten->impl(name.c_str(),
               torch::CppFunction::makeFromBoxedFunction<&RunKernel>());
  }
  auto* rest = new torch::Library(torch::Library::IMPL, "_",
                                  c10::DispatchKey::MPS, __FILE__, __LINE__);
  rest->fallback(torch::CppFunction::makeFromBoxedFunction<&RunFallback>());
}

}  // namespace

void InstallFakeMps() {
  static const bool installed = [] {
    KeepFakeHooks();
    RegisterKernels();
    SetMemoryListener([](int64_t change, int64_t live) {
      KernelObserver* observer = TheState().observer;
      if (observer != nullptr) observer->OnMemory(change, live);
    });
    return true;
  }();
  static_cast<void>(installed);
}

void SetKernelObserver(KernelObserver* observer) {
  std::lock_guard<std::mutex> lock(TheState().mutex);
  TheState().observer = observer;
}

void SetExecution(Execution execution) { TheState().execution = execution; }

void SpoilKernel(const std::string& op,
                 std::function<void(at::Tensor&)> spoil) {
  std::lock_guard<std::mutex> lock(TheState().mutex);
  if (spoil == nullptr) {
    TheState().spoilt.erase(op);
  } else {
    TheState().spoilt[op] = std::move(spoil);
  }
}

int64_t LiveBytes() { return LiveFakeBytes(); }

void SetMemoryLimit(int64_t bytes) { SetFakeMemoryLimit(bytes); }

int64_t Commits() { return TheState().commits; }

void CountCommit() { ++TheState().commits; }

int64_t Waits() { return TheState().waits; }

void CountWait() { ++TheState().waits; }

}  // namespace mpsd::ops
