// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_AUGMENT_H_
#define MPSD_CORE_DATA_AUGMENT_H_

#include <cstdint>

#include "core/data/order.h"
#include "core/data/image.h"
#include "core/spec/train_spec.h"

namespace mpsd::image {

// The random changes of one image: first the crop, then the mirroring.
struct Augmentation {
  Box crop;
  bool flip = false;
};

// The random numbers of a sample in an epoch, which depend only on the
// arguments, so that a resumed run sees the same images as an uninterrupted
// one.
data::Random RandomOfSample(uint64_t seed, int64_t epoch, int64_t sample);

// Draws by the rules of torchvision.transforms.RandomResizedCrop.get_params
// (ten attempts for a fitting area and ratio, else the middle) and
// RandomHorizontalFlip; the random numbers are not torch's. Without
// spec.random_resized_crop the whole image is kept.
Augmentation DrawAugmentation(const spec::AugmentationSpec& spec,
                              int64_t height, int64_t width,
                              data::Random& random);

}  // namespace mpsd::image

#endif  // MPSD_CORE_DATA_AUGMENT_H_
