// SPDX-License-Identifier: Apache-2.0
#include "core/model/stored.h"

#include <ATen/ATen.h>

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/int8.h"
#include "core/model/nf4.h"
#include "nlohmann/json.hpp"

namespace mpsd::quant {
namespace {

using nlohmann::json;
using WeightPtr = std::shared_ptr<const QuantizedWeight>;

constexpr char kState[] = ".quant_state.bitsandbytes__";

std::string ScalesOf(const std::string& name) {
  return name.substr(0, name.size() - std::string_view("weight").size()) +
         "SCB";
}

class StoredWeight {
 public:
  StoredWeight(const tensorfile::Weights& weights, const std::string& name,
               int64_t rows, int64_t columns)
      : weights_(weights), name_(name), rows_(rows), columns_(columns) {}

  absl::StatusOr<WeightPtr> ReadInt8(at::Device device) {
    Int8Parts parts;
    parts.codes = Tensor(name_, at::kChar, rows_ * columns_);
    parts.absmax = Tensor(ScalesOf(name_), at::kFloat, rows_);
    if (!status_.ok()) return status_;
    parts.codes = parts.codes.view({rows_, columns_});
    return MakeInt8(parts, device);
  }

  absl::StatusOr<WeightPtr> ReadNf4(at::Device device) {
    Nf4Parts parts;
    parts.rows = rows_;
    parts.columns = columns_;
    ReadState(parts);
    if (!status_.ok()) return status_;
    const int64_t count = rows_ * columns_;
    const int64_t blocks = (count + parts.block - 1) / parts.block;
    parts.codes = Tensor(name_, at::kByte, (count + 1) / 2);
    const std::string absmax = name_ + ".absmax";
    if (nested_) {
      parts.absmax = Tensor(absmax, at::kByte, blocks);
      parts.nested_map = Tensor(name_ + ".nested_quant_map", at::kFloat, 256);
      parts.nested_absmax =
          Tensor(name_ + ".nested_absmax", at::kFloat,
                 (blocks + parts.nested_block - 1) / parts.nested_block);
    } else {
      parts.absmax = Tensor(absmax, at::kFloat, blocks);
    }
    const at::Tensor map = Tensor(name_ + ".quant_map", at::kFloat, 16);
    if (!status_.ok()) return status_;
    // Codes index this map: another one would silently give other weights.
    if (!at::equal(map, Nf4Values()))
      return Bad("quant_map is not that of nf4");
    return MakeNf4(parts, device);
  }

 private:
  absl::Status Bad(const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("quantized weight \"", name_, "\": ", what));
  }

  // Loads a tensor of `values` values, flat. Keeps the first error and then
  // does nothing, so that callers check status_ after several loads.
  at::Tensor Tensor(const std::string& name, at::ScalarType dtype,
                    int64_t values) {
    if (!status_.ok()) return {};
    const tensorfile::TensorEntry* entry = weights_.Find(name);
    if (entry == nullptr) {
      status_ = Bad(absl::StrCat("the model has no \"", name, "\""));
      return {};
    }
    if (entry->dtype != dtype) {
      status_ =
          Bad(absl::StrCat("\"", name, "\" is stored as ", entry->dtype_name,
                           ", expected ", tensorfile::SafetensorsName(dtype)));
      return {};
    }
    const int64_t found = static_cast<int64_t>(entry->bytes) /
                          static_cast<int64_t>(at::elementSize(entry->dtype));
    if (found != values) {
      status_ = Bad(absl::StrCat("\"", name, "\" holds ", found,
                                 " values, expected ", values));
      return {};
    }
    auto tensor = weights_.Load(name, entry->shape, at::kCPU, dtype);
    if (!tensor.ok()) {
      status_ = tensor.status();
      return {};
    }
    return tensor->reshape({-1});
  }

  void ReadState(Nf4Parts& parts) {
    const std::string name = absl::StrCat(name_, kState, "nf4");
    const auto* entry = weights_.Find(name);
    const at::Tensor bytes =
        Tensor(name, at::kByte,
               entry == nullptr ? 0 : static_cast<int64_t>(entry->bytes));
    if (!status_.ok()) return;
    const auto* text =
        reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>());
    const json state = json::parse(text, text + bytes.numel(), nullptr, false);
    const auto whole = [&](const char* key, int64_t& value) {
      if (!state.contains(key)) return;
      if (state[key].is_number_integer() && state[key].get<int64_t>() > 0) {
        value = state[key].get<int64_t>();
      } else if (status_.ok()) {
        status_ = Bad(
            absl::StrCat(key, " of its quant_state is ", state[key].dump()));
      }
    };
    if (!state.is_object() ||
        state.value("shape", json()) != json{rows_, columns_}) {
      status_ = Bad(absl::StrCat("its quant_state does not say shape [", rows_,
                                 ", ", columns_, "]"));
      return;
    }
    whole("blocksize", parts.block);
    whole("nested_blocksize", parts.nested_block);
    nested_ = state.value("nested_offset", json()).is_number();
    if (nested_) parts.nested_offset = state["nested_offset"].get<float>();
    const json dtype = state.value("dtype", json());
    parts.dtype = dtype == "bfloat16"  ? at::kBFloat16
                  : dtype == "float16" ? at::kHalf
                                       : at::kFloat;
    // Two codes share a byte: an odd block would begin within a byte.
    if (parts.block % 2 != 0) status_ = Bad("an odd blocksize");
  }

  const tensorfile::Weights& weights_;
  const std::string name_;
  const int64_t rows_, columns_;
  bool nested_ = false;
  absl::Status status_;
};

bool HasState(const tensorfile::Weights& weights, const std::string& name,
              const char* type) {
  return weights.Contains(absl::StrCat(name, kState, type));
}

}  // namespace

// Weights that are not quantised are floats: an integer dtype marks codes.
bool IsStored(const tensorfile::Weights& weights, const std::string& name) {
  const tensorfile::TensorEntry* entry = weights.Find(name);
  return entry != nullptr &&
         (entry->dtype == at::kByte || entry->dtype == at::kChar);
}

absl::StatusOr<WeightPtr> LoadStored(const tensorfile::Weights& weights,
                                     const std::string& name, int64_t rows,
                                     int64_t columns, at::Device device) {
  StoredWeight stored(weights, name, rows, columns);
  if (weights.Contains(ScalesOf(name))) return stored.ReadInt8(device);
  if (HasState(weights, name, "fp4")) {
    return absl::UnimplementedError(absl::StrCat(
        "weight \"", name, "\" is quantized to fp4; mpsd reads nf4 and int8"));
  }
  return stored.ReadNf4(device);
}

}  // namespace mpsd::quant
