// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_RESAMPLE_H_
#define MPSD_CORE_DATA_RESAMPLE_H_

#include <cstdint>

#include "core/data/image.h"

namespace mpsd::image {

// Filters with PIL.Image.Resampling's numbers, which preprocessor_config.json
// uses.
enum class Filter {
  kNearest = 0,
  kLanczos = 1,
  kBilinear = 2,
  kBicubic = 3,
  kBox = 4,
  kHamming = 5,
};

// The image at another size, bit for bit as Pillow 13's Image.resize: filters
// widen as the image shrinks (no aliasing), are weighted in fixed point, and
// the result is rounded to eight bits after the horizontal and after the
// vertical pass (libImaging/Resample.c). The vertical pass comes first if the
// height loses more than twice as many pixels as the width; before version 13
// it never did. The passes compute in integers, so that every platform gives
// the same result; ATen's antialiased kernels round differently.
Image Resize(const Image& image, int64_t height, int64_t width, Filter filter);

}  // namespace mpsd::image

#endif  // MPSD_CORE_DATA_RESAMPLE_H_
