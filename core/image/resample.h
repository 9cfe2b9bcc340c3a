// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_IMAGE_RESAMPLE_H_
#define MPSD_CORE_IMAGE_RESAMPLE_H_

#include <cstdint>

#include "core/image/image.h"

namespace mpsd::image {

// By the numbers of PIL.Image.Resampling, as preprocessor_config.json has them.
enum class Filter {
  kNearest = 0,
  kLanczos = 1,
  kBilinear = 2,
  kBicubic = 3,
  kBox = 4,
  kHamming = 5,
};

// The image at another size, bit for bit as Pillow 13's Image.resize: filters
// widen as the image shrinks (no aliasing), are weighed in fixed point, and the
// result is rounded to eight bits after the horizontal and after the vertical
// pass (libImaging/Resample.c); the vertical one comes first where the height
// loses more than twice what the width loses, which it never did before
// version 13. Integers throughout, so that every platform gives the same;
// ATen's antialiased kernels round otherwise.
Image Resize(const Image& image, int64_t height, int64_t width, Filter filter);

}  // namespace mpsd::image

#endif  // MPSD_CORE_IMAGE_RESAMPLE_H_
