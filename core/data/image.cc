// SPDX-License-Identifier: Apache-2.0
#include "core/data/image.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"

namespace mpsd::image {
namespace {

// Copies `box` of `from` to (top, left) of `to`; both must contain it.
void Paste(const Image& from, const Box& box, int64_t top, int64_t left,
           Image& to) {
  const int64_t c = from.channels;
  base::CheckEqual(c, to.channels, "channels of both images");
  base::Check(box.top >= 0 && box.left >= 0 && top >= 0 && left >= 0,
              "a box begins within its image");
  base::CheckAtMost(box.top + box.height, from.height, "a box and its rows");
  base::CheckAtMost(box.left + box.width, from.width, "a box and its columns");
  base::CheckAtMost(top + box.height, to.height, "a box and its new rows");
  base::CheckAtMost(left + box.width, to.width, "a box and its new columns");
  for (int64_t y = 0; y < box.height; ++y) {
    const uint8_t* source =
        &from.pixels[((box.top + y) * from.width + box.left) * c];
    std::memcpy(&to.pixels[((top + y) * to.width + left) * c], source,
                box.width * c);
  }
}

// On one axis: where the kept part begins in the image and in the result, and
// its length.
struct Span {
  int64_t from, to, length;
};

Span Middle(int64_t have, int64_t want) {
  if (want <= have) return {(have - want) / 2, 0, want};
  // Transformers puts the image into zeros at ceil((want - have) / 2) and
  // begins the window at floor((have - want) / 2) plus the same offset, which
  // is 0.
  return {0, (want - have + 1) / 2, have};
}

Image GreyToRgb(const Image& image) {
  Image rgb = Blank(image.height, image.width, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    std::fill_n(&rgb.pixels[3 * i], 3, image.pixels[i]);
  }
  return rgb;
}

// ITU-R 601-2 luma in 16 bits (Pillow, libImaging/Convert.c, rgb2l).
Image RgbToGrey(const Image& image) {
  Image grey = Blank(image.height, image.width, 1);
  for (size_t i = 0; i < grey.pixels.size(); ++i) {
    const uint8_t* p = &image.pixels[3 * i];
    grey.pixels[i] = (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16;
  }
  return grey;
}

}  // namespace

Image Blank(int64_t height, int64_t width, int64_t channels) {
  return {height, width, channels,
          std::vector<uint8_t>(height * width * channels)};
}

Image Crop(const Image& image, const Box& box) {
  Image out = Blank(box.height, box.width, image.channels);
  Paste(image, box, 0, 0, out);
  return out;
}

Image CenterCrop(const Image& image, int64_t height, int64_t width) {
  const Span rows = Middle(image.height, height);
  const Span columns = Middle(image.width, width);
  Image out = Blank(height, width, image.channels);
  Paste(image, {rows.from, columns.from, rows.length, columns.length}, rows.to,
        columns.to, out);
  return out;
}

Image FlipHorizontally(const Image& image) {
  Image out = Blank(image.height, image.width, image.channels);
  const int64_t c = image.channels;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      const uint8_t* from = &image.pixels[(y * image.width + x) * c];
      std::copy_n(from, c, &out.pixels[((y + 1) * image.width - 1 - x) * c]);
    }
  }
  return out;
}

Image ToChannels(Image image, int64_t channels) {
  if (image.channels == channels) return image;
  return channels == 3 ? GreyToRgb(image) : RgbToGrey(image);
}

}  // namespace mpsd::image
