// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/fake_mps.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/stack.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mpsd::ops {

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

// Tensors of the fake device and the host tensors their kernels work on, both
// on the same memory.

const c10::Device kFake(c10::kMPS, 0);

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> memory_limit{std::numeric_limits<int64_t>::max()};

void CheckLimit(int64_t more) {
  TORCH_CHECK(
      live_bytes + more <= memory_limit,
      "MPS backend out of memory (MPS allocated: ", live_bytes.load(),
      " bytes, other allocations: 0 bytes, max allowed: ", memory_limit.load(),
      " bytes). Tried to allocate ", more, " bytes on private pool.");
}

std::mutex memory_mutex;

void Count(int64_t change) {
  const int64_t live = live_bytes += change;
  std::lock_guard<std::mutex> lock(memory_mutex);
  KernelObserver* observer = TheState().observer;
  if (observer != nullptr) observer->OnMemory(change, live);
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

// Where a tensor without memory would lie: distinguished by it, as others are,
// and never read.
void* Nowhere(int64_t bytes) {
  static std::atomic<uintptr_t> next{uintptr_t{1} << 46};
  return reinterpret_cast<void*>(next.fetch_add(bytes + 64));
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

c10::Allocator* FakeAllocator() {
  static Allocator allocator;
  return &allocator;
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

// A tensor on `device` (CPU or Meta) over the memory of one on MPS.
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

// A tensor on MPS that owns `host`'s memory.
at::Tensor OnFake(const at::Tensor& host) {
  return Shaped(Own(host), c10::DispatchKey::MPS, host);
}

// A tensor on MPS over `base`'s memory with the shape of `host`.
at::Tensor ViewOfFake(const at::Tensor& base, const at::Tensor& host) {
  return Shaped(c10::Storage(base.storage()), c10::DispatchKey::MPS, host);
}

// Gives `on_mps` the memory and shape of `host`, which a kernel has resized.
void Adopt(const at::Tensor& on_mps, const at::Tensor& host) {
  c10::TensorImpl* impl = on_mps.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(Own(host));
  impl->set_sizes_and_strides(host.sizes(), host.strides(),
                              host.storage_offset());
}

using Arguments = c10::ArrayRef<c10::IValue>;
using Function = std::function<Stack(Arguments)>;

at::Tensor Rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// linear_backward(input, grad_output, weight, output_mask), as
// aten/src/ATen/native/mps/operations/Linear.mm has it.
Stack LinearBackward(Arguments a) {
  const at::Tensor input = a[0].toTensor(), weight = a[2].toTensor();
  const at::Tensor grad = a[1].toTensor();
  const auto mask = a[3].toBoolList();
  at::Tensor by_input, by_weight, by_bias;
  if (mask.get(0)) by_input = at::matmul(grad, weight);
  if (mask.get(1)) by_weight = at::mm(Rows(grad).t(), Rows(input));
  if (mask.get(2)) by_bias = Rows(grad).sum(0);
  return {by_input, by_weight, by_bias};
}

// _softmax_backward_data(grad_output, output, dim, input_dtype): a product, its
// sum, a difference and a product, each rounded to the arguments' dtype, as
// aten/src/ATen/native/mps/operations/SoftMax.mm has it. In fp32 the CPU's own
// kernel differs by rounding alone.
Stack SoftmaxBackward(Arguments a) {
  const at::Tensor grad = a[0].toTensor(), output = a[1].toTensor();
  if (grad.scalar_type() == at::kFloat) {
    return {at::_softmax_backward_data(grad, output, a[2].toInt(),
                                       a[3].toScalarType())};
  }
  const at::Tensor sum =
      at::mul(grad, output).sum({a[2].toInt()}, /*keepdim=*/true);
  return {at::sub(grad, sum).mul_(output)};
}

const std::map<std::string, Function>& OnlyOnMps() {
  static const auto* table = new std::map<std::string, Function>{
      {"aten::linear_backward", LinearBackward},
      {"aten::_softmax_backward_data", SoftmaxBackward},
  };
  return *table;
}

at::Tensor Like(const c10::IValue& x) { return at::empty_like(x.toTensor()); }

Stack NormBackward(Arguments a) {
  const auto mask = a[7].toBoolList();
  const auto given = [&](size_t i, size_t argument) {
    return mask.get(i) ? Like(a[argument]) : at::Tensor();
  };
  return {given(0, 1), given(1, 5), given(2, 6)};
}

Stack IndexSelect(Arguments a) {
  const at::Tensor x = a[0].toTensor();
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[a[1].toInt()] = a[2].toTensor().numel();
  return {at::empty(sizes, x.options())};
}

Stack Dropout(Arguments a) {
  const at::Tensor x = a[0].toTensor();
  return {at::empty_like(x), at::empty_like(x, at::kBool)};
}

Stack EmbeddingBackward(Arguments a) {
  const at::Tensor grad = a[0].toTensor();
  return {at::empty({a[2].toInt(), grad.size(-1)}, grad.options())};
}

Stack Where(Arguments a) {
  const auto tensors = at::broadcast_tensors(
      {a[0].toTensor(), a[1].toTensor(), a[2].toTensor()});
  return {at::empty(tensors[1].sizes(), tensors[1].options())};
}

// logical_or(x, y, out), which torch calls for the plain form too.
Stack LogicalOut(Arguments a) {
  const at::Tensor out = a[2].toTensor();
  out.resize_(at::infer_size(a[0].toTensor().sizes(), a[1].toTensor().sizes()));
  return {out};
}

// Of the CPU's kernels, for runs that count their bytes.
Stack FlashAttention(Arguments a) {
  const at::Tensor q = a[0].toTensor();
  return {at::empty_like(q), at::empty({q.size(0), q.size(1), q.size(2)},
                                       q.options().dtype(at::kFloat))};
}

Stack FlashAttentionBackward(Arguments a) {
  return {Like(a[1]), Like(a[2]), Like(a[3])};
}

Stack InnerProduct(Arguments a) {
  const at::Tensor x = a[0].toTensor();
  return {at::empty({x.size(0), a[1].toTensor().size(0)}, x.options())};
}

const std::map<std::string, Function>& Shapes() {
  static const auto* table = new std::map<std::string, Function>{
      {"aten::_local_scalar_dense",
       [](Arguments) -> Stack { return {c10::Scalar(0)}; }},
      {"aten::index_select", IndexSelect},
      {"aten::native_dropout", Dropout},
      {"aten::native_dropout_backward",
       [](Arguments a) -> Stack { return {Like(a[0])}; }},
      {"aten::native_layer_norm_backward", NormBackward},
      {"aten::embedding_dense_backward", EmbeddingBackward},
      {"aten::where", Where},
      {"aten::logical_or", LogicalOut},
      {"aten::logical_and", LogicalOut},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", FlashAttention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       FlashAttentionBackward},
      {"mkldnn::_linear_pointwise", InnerProduct},
      {"aten::roll", [](Arguments a) -> Stack { return {Like(a[0])}; }},
  };
  return *table;
}

// Whether every result is an argument that is written to.
bool WritesOnly(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (!result.alias_info() || !result.alias_info()->isWrite()) return false;
  }
  return true;
}

bool Run(const std::map<std::string, Function>& table, const std::string& name,
         size_t count, Stack& stack) {
  const auto it = table.find(name);
  if (it == table.end()) return false;
  Stack results = it->second(torch::jit::last(stack, count));
  torch::jit::drop(stack, count);
  stack.insert(stack.end(), results.begin(), results.end());
  return true;
}

// Runs an operator on host tensors: its arguments lie on `stack`, its results
// will. Also those that only MPS has a kernel of (linear_backward), those that
// MPS rounds where the CPU does not (the backward of softmax) and, on Meta
// tensors, those that torch has no shape function of.
void RunOnHost(const c10::OperatorHandle& op, bool meta, Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  const size_t count = schema.arguments().size();
  if (Run(OnlyOnMps(), name, count, stack)) return;
  if (meta && Run(Shapes(), name, count, stack)) return;
  // In place: shapes stay. Results of out variants may be resized.
  const bool in_place = name.back() == '_' && WritesOnly(schema);
  if (meta && in_place) {
    Stack results;
    if (!schema.returns().empty()) {
      results.push_back(torch::jit::peek(stack, 0, count));
    }
    torch::jit::drop(stack, count);
    stack.insert(stack.end(), results.begin(), results.end());
    return;
  }
  op.callBoxed(&stack);
}

std::string DtypeOf(const at::Tensor& t) {
  return IsFake(t) ? c10::toString(t.scalar_type()) : "host";
}

// Empty where the argument holds no tensor.
std::string DtypesOf(const IValue& value) {
  std::set<std::string> dtypes;
  if (value.isTensor() && value.toTensor().defined()) {
    return DtypeOf(value.toTensor());
  }
  if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) {
      dtypes.insert(DtypeOf(t));
    }
  }
  if (value.isOptionalTensorList()) {
    for (const auto& t : value.toOptionalTensorVector()) {
      if (t) dtypes.insert(DtypeOf(*t));
    }
  }
  return absl::StrJoin(dtypes, "|");
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool IsView(const c10::Argument& result) {
  return result.alias_info() != nullptr && !result.alias_info()->isWrite();
}

// What torch asks about the MPS backend besides its kernels.
// The registry's key is the name of the class.
struct MPSHooks : at::MPSHooksInterface {
  void init() const override {}
  bool hasMPS() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool isOnMacOSorNewer(unsigned, unsigned) const override { return true; }
  // Its kernels draw from the CPU's.
  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(at::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  at::Allocator* getMPSDeviceAllocator() const override {
    return FakeAllocator();
  }
  void deviceSynchronize() const override { ++TheState().waits; }
  void commitStream() const override { ++TheState().commits; }
  void emptyCache() const override {}
  size_t getCurrentAllocatedMemory() const override { return live_bytes; }
  size_t getDriverAllocatedMemory() const override { return live_bytes; }
  size_t getRecommendedMaxMemory() const override { return size_t{64} << 30; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  at::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(at::DeviceIndex) const override {}
  at::DeviceIndex getCurrentDevice() const override { return 0; }
  at::DeviceIndex exchangeDevice(at::DeviceIndex) const override { return 0; }
  at::DeviceIndex maybeExchangeDevice(at::DeviceIndex) const override {
    return 0;
  }
};

// One device, one stream.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::MPS> {
  c10::Device exchangeDevice(c10::Device) const override { return {type(), 0}; }
  c10::Device getDevice() const override { return {type(), 0}; }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, {type(), 0});
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, {type(), 0});
  }
};

using at::MPSHooksRegistry;
using at::RegistererMPSHooksRegistry;
REGISTER_MPS_HOOKS(MPSHooks)
C10_REGISTER_GUARD_IMPL(MPS, Guard)

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

std::string TypedName(const c10::OperatorHandle& op,
                      c10::ArrayRef<IValue> inputs) {
  std::vector<std::string> dtypes;
  for (const IValue& value : inputs) {
    std::string found = DtypesOf(value);
    if (!found.empty()) dtypes.push_back(std::move(found));
  }
  return absl::StrCat(toString(op.operator_name()), "(",
                      absl::StrJoin(dtypes, ", "), ")");
}

bool MakesNumbers(const c10::OperatorHandle& op, c10::ArrayRef<IValue> inputs) {
  if (op.hasTag(at::Tag::inplace_view)) return false;
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (IsWritten(argument)) return true;
  }
  bool reads = false;
  for (const IValue& value : inputs) reads |= !DtypesOf(value).empty();
  if (!reads) return false;
  for (const c10::Argument& result : op.schema().returns()) {
    if (!IsView(result)) return true;
  }
  return false;
}

bool DrawsRandomNumbers(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded);
}

void InstallFakeMps() {
  static const bool installed = [] {
    c10::SetAllocator(c10::kMPS, FakeAllocator());
    RegisterKernels();
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

int64_t LiveBytes() { return live_bytes; }

void SetMemoryLimit(int64_t bytes) { memory_limit = bytes; }

int64_t Commits() { return TheState().commits; }

int64_t Waits() { return TheState().waits; }

}  // namespace mpsd::ops
