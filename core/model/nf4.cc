// SPDX-License-Identifier: Apache-2.0
#include "core/model/nf4.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/check.h"

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

}  // namespace mpsd::quant
