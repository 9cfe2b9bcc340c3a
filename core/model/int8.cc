// SPDX-License-Identifier: Apache-2.0
#include "core/model/int8.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/base/check.h"

namespace mpsd::quant {
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

}  // namespace mpsd::quant
