// SPDX-License-Identifier: Apache-2.0
#include "core/model/quant.h"

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "nlohmann/json.hpp"

namespace mpsd::quant {
namespace {

constexpr int64_t kNestedBlock = 256;
// Values quantised at a time, which bounds the additional memory.
constexpr int64_t kChunk = 1 << 22;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// `flat` padded with zeros to a multiple of `size`.
at::Tensor PadTo(const at::Tensor& flat, int64_t size) {
  const int64_t missing = CeilDivide(flat.numel(), size) * size - flat.numel();
  return missing == 0 ? flat : at::constant_pad_nd(flat, {0, missing}, 0);
}

// The indices of the values of `map` (ascending) nearest to `values`.
at::Tensor Nearest(const at::Tensor& values, const at::Tensor& map) {
  // The nearest value changes at the midpoint of two neighbours in the map.
  const int64_t n = map.numel();
  const at::Tensor bounds =
      (map.narrow(0, 0, n - 1) + map.narrow(0, 1, n - 1)) / 2;
  return at::bucketize(values, bounds, /*out_int32=*/true).to(at::kByte);
}

struct Blocks {
  at::Tensor codes;   // uint8, one per value
  at::Tensor absmax;  // fp32, one per block
};

// values: fp32, flat, whole blocks.
Blocks QuantizeBlocks(const at::Tensor& values, int64_t block,
                      const at::Tensor& map) {
  base::CheckEqual(values.numel() % block, 0, "values beyond whole blocks");
  const at::Tensor rows = values.view({-1, block});
  const at::Tensor absmax = rows.abs().amax(-1);
  const at::Tensor scaled =
      (rows * absmax.clamp_min(1e-38).reciprocal().unsqueeze(-1)).clamp(-1, 1);
  return {Nearest(scaled, map).view(-1), absmax};
}

at::Tensor Pack(const at::Tensor& codes) {
  base::CheckEqual(codes.numel() % 2, 0, "codes beyond whole bytes");
  const at::Tensor pairs = codes.view({-1, 2});
  return pairs.select(1, 0).mul(16).add_(pairs.select(1, 1));
}

void QuantizeAbsmax(Nf4Parts& parts) {
  // Scales are positive while the map is symmetric around 0: subtracting the
  // mean first uses both halves of the map.
  const at::Tensor mean = parts.absmax.mean();
  const int64_t count = parts.absmax.numel();
  parts.nested_map = DynamicMap();
  parts.nested_block = kNestedBlock;
  parts.nested_offset = mean.item<float>();
  const Blocks nested = QuantizeBlocks(PadTo(parts.absmax - mean, kNestedBlock),
                                       kNestedBlock, parts.nested_map);
  parts.absmax = nested.codes.narrow(0, 0, count).contiguous();
  parts.nested_absmax = nested.absmax;
}

// The two values encoded in each byte of codes, fp32 [256, 2].
at::Tensor PairTable() {
  const at::Tensor values = Nf4Values();
  return at::stack({values.repeat_interleave(16), values.repeat({16})}, 1)
      .contiguous();
}

class Nf4Weight : public QuantizedWeight {
 public:
  Nf4Weight(const Nf4Parts& p, at::Device device)
      : QuantizedWeight(p.rows, p.columns),
        parts_(p),
        pairs_(PairTable().to(device)) {
    parts_.codes = PadTo(p.codes.reshape({-1}), p.block / 2).to(device);
    parts_.absmax = p.absmax.to(device);
    if (!nested()) return;
    parts_.nested_map = p.nested_map.to(device);
    parts_.nested_absmax = p.nested_absmax.to(device);
  }

  at::Tensor Dense(at::ScalarType dtype) const override {
    const at::Tensor absmax = Absmax();
    const int64_t blocks = parts_.codes.numel() * 2 / parts_.block;
    const int64_t at_once = RowsAtOnce(parts_.block);
    at::Tensor dense;
    if (blocks <= at_once) {
      dense = Values(absmax, 0, blocks).to(dtype);
    } else {
      dense = at::empty({blocks * parts_.block},
                        parts_.codes.options().dtype(dtype));
      for (int64_t at = 0; at < blocks; at += at_once) {
        const int64_t count = std::min(at_once, blocks - at);
        dense.narrow(0, at * parts_.block, count * parts_.block)
            .copy_(Values(absmax, at, count));
      }
    }
    return dense.narrow(0, 0, rows() * columns()).view({rows(), columns()});
  }

  int64_t bytes() const override {
    int64_t sum = 0;
    for (const at::Tensor& t : {parts_.codes, parts_.absmax, parts_.nested_map,
                                parts_.nested_absmax, pairs_}) {
      if (t.defined()) sum += static_cast<int64_t>(t.nbytes());
    }
    return sum;
  }
  at::Device device() const override { return parts_.codes.device(); }

 private:
  bool nested() const { return parts_.nested_absmax.defined(); }

  // The values of `count` blocks from block `at` on, flat, in the weight's
  // dtype before quantisation.
  at::Tensor Values(const at::Tensor& absmax, int64_t at, int64_t count) const {
    base::CheckAtMost(at + count, absmax.numel(), "blocks and their scales");
    const int64_t bytes = parts_.block / 2;
    const at::Tensor codes = parts_.codes.narrow(0, at * bytes, count * bytes);
    at::Tensor values = at::index_select(pairs_, 0, codes.to(at::kInt))
                            .view({-1, parts_.block});
    values.mul_(absmax.narrow(0, at, count).unsqueeze(-1));
    return values.view(-1).to(parts_.dtype);
  }

  at::Tensor Absmax() const {
    if (!nested()) return parts_.absmax;
    const int64_t count = parts_.absmax.numel();
    const at::Tensor values = at::index_select(
        parts_.nested_map, 0,
        PadTo(parts_.absmax, parts_.nested_block).to(at::kInt));
    return (values.view({-1, parts_.nested_block}) *
            parts_.nested_absmax.unsqueeze(-1))
        .view(-1)
        .narrow(0, 0, count)
        .add(parts_.nested_offset);
  }

  Nf4Parts parts_;
  at::Tensor pairs_;
};

}  // namespace

at::Tensor Nf4Values() {
  return at::tensor(
      {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
       -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f,
       0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
       0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
       0.7229568362236023f, 1.0f});
}

at::Tensor DynamicMap() {
  std::vector<at::Tensor> parts = {at::zeros({1}), at::ones({1})};
  for (int i = 0; i < 7; ++i) {
    const int64_t items = (int64_t{1} << i) + 1;
    const at::Tensor bounds = at::linspace(0.1, 1, items);
    const at::Tensor means =
        (bounds.narrow(0, 0, items - 1) + bounds.narrow(0, 1, items - 1)) / 2;
    parts.push_back(means * std::pow(10.0, i - 6));
    parts.push_back(-parts.back());
  }
  return std::get<0>(at::cat(parts).sort());
}

Nf4Parts QuantizeNf4(const at::Tensor& weight, bool double_quantization,
                     int64_t block) {
  Nf4Parts parts;
  parts.rows = weight.size(0);
  parts.columns = weight.size(1);
  parts.block = block;
  parts.dtype = weight.scalar_type();
  const at::Tensor flat = weight.detach().reshape({-1});
  const at::Tensor map = Nf4Values();
  std::vector<at::Tensor> codes, absmax;
  for (int64_t at = 0; at < flat.numel(); at += kChunk) {
    const int64_t size = std::min(kChunk, flat.numel() - at);
    const Blocks blocks = QuantizeBlocks(
        PadTo(flat.narrow(0, at, size).to(at::kFloat), block), block, map);
    codes.push_back(Pack(blocks.codes));
    absmax.push_back(blocks.absmax);
  }
  parts.codes = at::cat(codes);
  parts.absmax = at::cat(absmax);
  if (double_quantization) QuantizeAbsmax(parts);
  return parts;
}

std::shared_ptr<const QuantizedWeight> MakeNf4(const Nf4Parts& parts,
                                               at::Device device) {
  return std::make_shared<Nf4Weight>(parts, device);
}

namespace {

class Int8Weight : public QuantizedWeight {
 public:
  Int8Weight(const Int8Parts& parts, at::Device device)
      : QuantizedWeight(parts.codes.size(0), parts.codes.size(1)),
        codes_(parts.codes.to(device)),
        absmax_(parts.absmax.to(device)) {}

  at::Tensor Dense(at::ScalarType dtype) const override {
    const int64_t at_once = RowsAtOnce(columns());
    if (rows() <= at_once) return Values(0, rows()).to(dtype);
    at::Tensor dense = at::empty(codes_.sizes(), codes_.options().dtype(dtype));
    for (int64_t at = 0; at < rows(); at += at_once) {
      const int64_t count = std::min(at_once, rows() - at);
      dense.narrow(0, at, count).copy_(Values(at, count));
    }
    return dense;
  }
  int64_t bytes() const override {
    return static_cast<int64_t>(codes_.nbytes() + absmax_.nbytes());
  }
  at::Device device() const override { return codes_.device(); }

 private:
  at::Tensor Values(int64_t at, int64_t count) const {
    // The factors are multiplied in the order of bitsandbytes'
    // int8_vectorwise_dequant, so that the roundings are the same; the constant
    // is 1 / 127 in fp32.
    return codes_.narrow(0, at, count)
        .to(at::kFloat)
        .mul_(absmax_.narrow(0, at, count).unsqueeze(-1))
        .mul_(7.874015718698502e-3);
  }

  const at::Tensor codes_, absmax_;
};

}  // namespace

Int8Parts QuantizeInt8(const at::Tensor& weight) {
  base::CheckEqual(weight.dim(), 2, "dimensions of a weight");
  const at::Tensor w = weight.detach().to(at::kHalf);
  const at::Tensor absmax = w.abs().amax(1).to(at::kFloat);
  // A row of zeros has no scale (1 / 0); nan_to_num_ makes the scale 0, so that
  // the row's codes are 0.
  const at::Tensor scale = absmax.reciprocal().mul_(127).nan_to_num_(0, 0, 0);
  return {at::round(w.to(at::kFloat) * scale.unsqueeze(-1)).to(at::kChar),
          absmax};
}

std::shared_ptr<const QuantizedWeight> MakeInt8(const Int8Parts& parts,
                                                at::Device device) {
  return std::make_shared<Int8Weight>(parts, device);
}

std::shared_ptr<const QuantizedWeight> Quantize(const at::Tensor& weight,
                                                const Options& options,
                                                at::Device device) {
  if (options.format == Format::kInt8) {
    return MakeInt8(QuantizeInt8(weight), device);
  }
  return MakeNf4(QuantizeNf4(weight, options.double_quantization), device);
}

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

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Weight = std::shared_ptr<const QuantizedWeight>;

// Autograd saves only values and tensors: this holder lets the node keep the
// codes alive without saving a dense matrix.
struct Layer : torch::CustomClassHolder {
  Layer(Weight w, at::Tensor b) : weight(std::move(w)), bias(std::move(b)) {}
  const Weight weight;
  const at::Tensor bias;
};

class Function : public torch::autograd::Function<Function> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const c10::intrusive_ptr<Layer>& layer) {
    ctx->saved_data["layer"] = c10::IValue::make_capsule(layer);
    return at::linear(x, layer->weight->Dense(x.scalar_type()), layer->bias);
  }
  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const auto capsule = ctx->saved_data["layer"].toCapsule();
    const Layer& layer = static_cast<const Layer&>(*capsule);
    const at::Tensor& dy = gradients[0];
    // dx = dy W, with W decoded again; the frozen weight has no gradient.
    return {at::matmul(dy, layer.weight->Dense(dy.scalar_type())),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor LinearForward(const at::Tensor& x, const Weight& weight,
                         const at::Tensor& bias) {
  return Function::apply(x, c10::make_intrusive<Layer>(weight, bias));
}

}  // namespace mpsd::quant
