// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_IMAGE_AUGMENT_H_
#define MPSD_CORE_IMAGE_AUGMENT_H_

#include <cstdint>

#include "core/data/order.h"
#include "core/image/image.h"
#include "core/spec/train_spec.h"

namespace mpsd::image {

// What chance does to one image: the part that is kept, then the mirror.
struct Augmentation {
  Box crop;
  bool flip = false;
};

// The draws of a sample in an epoch: a function of its arguments alone, so that
// a resumed run sees the images that the first one would have seen.
data::Random RandomOfSample(uint64_t seed, int64_t epoch, int64_t sample);

// By the rules of torchvision.transforms.RandomResizedCrop.get_params (ten
// tries to cut an area and a ratio that fit, else the middle) and
// RandomHorizontalFlip; the numbers are our own. Without
// spec.random_resized_crop the whole image is kept.
Augmentation DrawAugmentation(const spec::AugmentationSpec& spec,
                              int64_t height, int64_t width,
                              data::Random& random);

}  // namespace mpsd::image

#endif  // MPSD_CORE_IMAGE_AUGMENT_H_
