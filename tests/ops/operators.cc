// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/operators.h"

#include <ATen/ATen.h>

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/ops/fake_memory.h"

namespace mpsd::ops {
namespace {

using c10::IValue;

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

}  // namespace mpsd::ops
