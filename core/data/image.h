// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsd::image {

// Eight bits per channel, row-major [height, width, channels].
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  // 3: RGB, 1: grey
  std::vector<uint8_t> pixels;

  size_t bytes() const { return pixels.size(); }
  bool operator==(const Image&) const = default;
};

// An image of zeros.
Image Blank(int64_t height, int64_t width, int64_t channels);

// A rectangle of an image, in pixels.
struct Box {
  int64_t top = 0, left = 0;
  int64_t height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

// `box` must be within the image.
Image Crop(const Image& image, const Box& box);

// The middle of the image; an image that is too small is padded with zeros
// (transformers, image_transforms.py, center_crop).
Image CenterCrop(const Image& image, int64_t height, int64_t width);

Image FlipHorizontally(const Image& image);

// Converts to 1 or 3 channels as PIL's convert("L") and convert("RGB") do.
Image ToChannels(Image image, int64_t channels);

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
