// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/recorder.h"

#include <ATen/ATen.h>
#include <c10/util/Backtrace.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/ops/fake_mps.h"

namespace mpsd::ops {

namespace {

using c10::IValue;

// Every tensor on the device among `values`.
std::vector<at::Tensor> OnDevice(c10::ArrayRef<IValue> values) {
  std::vector<at::Tensor> tensors;
  const auto add = [&tensors](const at::Tensor& t) {
    if (IsFake(t)) tensors.push_back(t);
  };
  for (const IValue& value : values) {
    if (value.isTensor()) add(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) add(t);
    }
    if (value.isOptionalTensorList()) {
      for (const auto& t : value.toOptionalTensorVector()) {
        if (t) add(*t);
      }
    }
  }
  return tensors;
}

std::string Describe(const at::Tensor& t) {
  return absl::StrCat("[", absl::StrJoin(t.sizes(), ", "), "] ",
                      c10::toString(t.scalar_type()));
}

// A product of matrices: its sides, and how many products each sum has.
struct Gemm {
  at::Tensor left, right;
  int64_t inner = 0;
};

std::vector<Gemm> Gemms(const Kernel& kernel) {
  const std::string& name = kernel.op.schema().name();
  const auto tensor = [&kernel](size_t i) {
    return kernel.inputs[i].toTensor();
  };
  const auto product = [&tensor](size_t i) {
    return Gemm{tensor(i), tensor(i + 1), tensor(i).size(-1)};
  };
  static const std::set<std::string> plain = {
      "aten::mm", "aten::bmm", "aten::mv", "aten::linear", "aten::dot"};
  static const std::set<std::string> added = {"aten::addmm",   "aten::addmm_",
                                              "aten::baddbmm", "aten::baddbmm_",
                                              "aten::addbmm",  "aten::addmv"};
  if (plain.contains(name)) return {product(0)};
  if (added.contains(name)) return {product(1)};
  if (name != "aten::linear_backward") return {};
  const at::Tensor input = tensor(0), grad = tensor(1), weight = tensor(2);
  const auto mask = kernel.inputs[3].toBoolList();
  std::vector<Gemm> gemms;
  if (mask.get(0)) gemms.push_back({grad, weight, weight.size(0)});
  if (mask.get(1)) {
    gemms.push_back({grad, input, grad.numel() / grad.size(-1)});
  }
  return gemms;
}

// A view that a transposition makes: what lies side by side in memory is not
// the last dimension.
bool IsTransposed(const at::Tensor& t) {
  return t.dim() >= 2 && t.size(-1) > 1 && t.stride(-1) != 1;
}

class Inspector {
 public:
  explicit Inspector(const Kernel& kernel) : kernel_(kernel) {}

  std::vector<std::string> Run() && {
    inputs_ = OnDevice(kernel_.inputs);
    std::vector<at::Tensor> all = inputs_;
    for (const at::Tensor& t : OnDevice(kernel_.outputs)) all.push_back(t);
    for (const at::Tensor& t : all) CheckTensor(t);
    CheckMixedTypes();
    for (const Gemm& gemm : Gemms(kernel_)) CheckGemm(gemm);
    CheckTargets();
    CheckSoftmax();
    return std::move(faults_);
  }

 private:
  template <typename... Parts>
  void Fault(const Parts&... parts) {
    faults_.push_back(absl::StrCat(parts..., ": ", Signature(kernel_)));
  }

  void CheckTensor(const at::Tensor& t) {
    if (t.scalar_type() == at::kDouble) Fault("float64 on the device");
    if (t.is_complex()) Fault("complex numbers on the device");
    if (t.numel() >= kMaxElements) {
      Fault(t.numel(), " elements, 2^31 or more, in ", Describe(t));
    } else if (t.numel() * t.itemsize() >= kMaxBytes) {
      Fault("4 GiB or more in ", Describe(t));
    }
  }

  void CheckMixedTypes() {
    // Copies cast; the optimizer's kernel is made for what it gets.
    if (kernel_.op.schema().name() == "aten::copy_") return;
    std::set<at::ScalarType> types;
    for (const at::Tensor& t : inputs_) {
      if (t.is_floating_point()) types.insert(t.scalar_type());
    }
    if (types.size() > 1) Fault("floating dtypes mixed in one call");
  }

  void CheckGemm(const Gemm& gemm) {
    if (at::isIntegralType(gemm.left.scalar_type(), /*includeBool=*/true)) {
      Fault("a product of integers");
    }
    if (gemm.inner >= kGemmInner) {
      Fault("a GEMM of ", gemm.inner, " products a sum, ", kGemmInner,
            " or more");
    }
    if (gemm.left.scalar_type() == at::kFloat && IsTransposed(gemm.left)) {
      Fault("an fp32 GEMM with a transposed view [",
            absl::StrJoin(gemm.left.sizes(), ", "), "] at its left");
    }
  }

  void CheckTargets() {
    const c10::FunctionSchema& schema = kernel_.op.schema();
    if (schema.name() == "aten::copy_") return;
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      for (const at::Tensor& t : OnDevice(kernel_.inputs.slice(i, 1))) {
        if (t.is_contiguous()) continue;
        Fault("written in place though not contiguous: ", Describe(t),
              " with strides [", absl::StrJoin(t.strides(), ", "), "]");
      }
    }
  }

  // A graph that writes what it still reads.
  void CheckSoftmax() {
    const std::string& name = kernel_.op.schema().name();
    if (name == "aten::_softmax" && inputs_.size() == 2 &&
        inputs_[0].is_alias_of(inputs_[1])) {
      Fault("a softmax in its input's place");
    }
  }

  const Kernel& kernel_;
  std::vector<at::Tensor> inputs_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> Faults(const Kernel& kernel) {
  return Inspector(kernel).Run();
}

bool Synchronises(const Kernel& kernel) {
  const std::string& name = kernel.op.schema().name();
  if (name == "aten::copy_") {
    const bool to = IsFake(kernel.inputs[0].toTensor());
    const bool from = IsFake(kernel.inputs[1].toTensor());
    const bool non_blocking = kernel.inputs[2].toBool();
    return (from && !to) || (to && !from && !non_blocking);
  }
  if (name == "aten::index") {
    for (const at::Tensor& t : OnDevice(kernel.inputs.slice(1, 1))) {
      if (t.scalar_type() == at::kBool) return true;
    }
  }
  static const std::set<std::string> waiting = {"aten::_local_scalar_dense",
                                                "aten::nonzero",
                                                "aten::masked_select",
                                                "aten::equal",
                                                "aten::_unique2",
                                                "aten::unique_dim",
                                                "aten::bincount"};
  return waiting.contains(name);
}

bool Uploads(const Kernel& kernel) {
  return kernel.op.schema().name() == "aten::copy_" &&
         IsFake(kernel.inputs[0].toTensor()) &&
         !IsFake(kernel.inputs[1].toTensor());
}

std::string Signature(const Kernel& kernel) {
  std::vector<std::string> tensors;
  for (const at::Tensor& t : OnDevice(kernel.inputs)) {
    tensors.push_back(Describe(t));
  }
  return absl::StrCat(toString(kernel.op.operator_name()), " ",
                      absl::StrJoin(tensors, ", "));
}

namespace {

// With MPSD_OPS_BACKTRACE set, where a call came from that is at fault.
void PrintBacktrace(const std::string& what) {
  if (std::getenv("MPSD_OPS_BACKTRACE") == nullptr) return;
  std::cerr << what << "\n" << c10::get_backtrace() << "\n";
}

}  // namespace

Recorder::Recorder()
    : live_at_begin_(LiveBytes()),
      commits_at_begin_(Commits()),
      waits_at_begin_(Waits()) {
  InstallFakeMps();
  SetKernelObserver(this);
}

Recorder::~Recorder() { SetKernelObserver(nullptr); }

void Recorder::Close(const std::string& name) {
  live_at_begin_ = LiveBytes();
  current_.name = name;
  current_.live = live_at_begin_;
  current_.commits = Commits() - std::exchange(commits_at_begin_, Commits());
  current_.syncs += Waits() - std::exchange(waits_at_begin_, Waits());
  parts_.push_back(std::move(current_));
  current_ = {};
}

void Recorder::OnKernel(const Kernel& kernel) {
  const std::string name = toString(kernel.op.operator_name());
  ++current_.kernels;
  operators_.insert(name);
  if (MakesNumbers(kernel.op, kernel.inputs)) {
    current_.operators.insert(TypedName(kernel.op, kernel.inputs));
  }
  if (!kernel.has_mps_kernel && ++missing_[name] == 1) PrintBacktrace(name);
  for (const std::string& fault : Faults(kernel)) {
    if (faults_.insert(fault).second) PrintBacktrace(fault);
  }
  if (Synchronises(kernel)) ++current_.syncs;
  current_.signatures.insert(Signature(kernel));
  if (Uploads(kernel)) ++current_.uploads;
  if (kernel.op.schema().name() != "aten::index_select") return;
  if (kernel.inputs[0].toTensor().dim() < 2) return;  // no rows: a table
  // Nor one that the codes of a quantised weight are looked up in.
  const at::Tensor index = kernel.inputs[2].toTensor();
  if (index.scalar_type() == at::kLong) current_.picked.insert(index.numel());
}

void Recorder::OnMemory(int64_t bytes, int64_t live) {
  if (bytes > 0) current_.bytes += bytes;
  current_.peak = std::max(current_.peak, live - live_at_begin_);
}

}  // namespace mpsd::ops
