// SPDX-License-Identifier: Apache-2.0
#include "core/data/augment.h"

#include <cmath>

namespace mpsd::image {
namespace {

double Uniform(data::Random& random, double low, double high) {
  const double unit = static_cast<double>(random.Next() >> 11) * 0x1p-53;
  return low + (high - low) * unit;
}

// Python's round: halves round to even.
int64_t Round(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

// The largest box in the middle with an allowed ratio.
Box MiddleBox(const spec::AugmentationSpec& spec, int64_t height,
              int64_t width) {
  const double ratio = static_cast<double>(width) / height;
  int64_t h = height, w = width;
  if (ratio < spec.crop_ratio_min) {
    h = Round(w / spec.crop_ratio_min);
  } else if (ratio > spec.crop_ratio_max) {
    w = Round(h * spec.crop_ratio_max);
  }
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Box DrawBox(const spec::AugmentationSpec& spec, int64_t height, int64_t width,
            data::Random& random) {
  const double area = static_cast<double>(height) * width;
  for (int i = 0; i < 10; ++i) {
    const double target =
        area * Uniform(random, spec.crop_scale_min, spec.crop_scale_max);
    // Uniform in the logarithm, so that 3:4 is as likely as 4:3.
    const double ratio = std::exp(Uniform(random, std::log(spec.crop_ratio_min),
                                          std::log(spec.crop_ratio_max)));
    const int64_t w = Round(std::sqrt(target * ratio));
    const int64_t h = Round(std::sqrt(target / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const auto top = static_cast<int64_t>(random.Below(height - h + 1));
    const auto left = static_cast<int64_t>(random.Below(width - w + 1));
    return {top, left, h, w};
  }
  return MiddleBox(spec, height, width);
}

}  // namespace

data::Random RandomOfSample(uint64_t seed, int64_t epoch, int64_t sample) {
  // An epoch's order is drawn from the same seed; the constant makes these
  // numbers independent of the order's.
  constexpr uint64_t kImages = 0x696d61676573;  // "images"
  data::Random epochs(data::Random(seed ^ kImages).Next() +
                      static_cast<uint64_t>(epoch));
  return data::Random(epochs.Next() + static_cast<uint64_t>(sample));
}

Augmentation DrawAugmentation(const spec::AugmentationSpec& spec,
                              int64_t height, int64_t width,
                              data::Random& random) {
  Augmentation drawn;
  drawn.crop = spec.random_resized_crop ? DrawBox(spec, height, width, random)
                                        : Box{0, 0, height, width};
  drawn.flip = Uniform(random, 0, 1) < spec.horizontal_flip;
  return drawn;
}

}  // namespace mpsd::image
