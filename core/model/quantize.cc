// SPDX-License-Identifier: Apache-2.0
#include "core/model/quantize.h"

#include "core/model/int8.h"
#include "core/model/nf4.h"

namespace mpsd::quant {

std::shared_ptr<const QuantizedWeight> Quantize(const at::Tensor& weight,
                                                const Options& options,
                                                at::Device device) {
  if (options.format == Format::kInt8) {
    return MakeInt8(QuantizeInt8(weight), device);
  }
  return MakeNf4(QuantizeNf4(weight, options.double_quantization), device);
}

}  // namespace mpsd::quant
