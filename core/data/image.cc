// SPDX-License-Identifier: Apache-2.0
#include "core/data/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

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

namespace {

// Fractional bits of a weight: a sum of bytes times weights fits into 32 bits,
// with two bits for weights whose sum exceeds 1 (Pillow's PRECISION_BITS).
constexpr int kPrecisionBits = 32 - 8 - 2;
constexpr double kPi = 3.14159265358979323846;

double Sinc(double x) { return x == 0 ? 1 : std::sin(x * kPi) / (x * kPi); }

double Cubic(double x) {
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

double Hamming(double x) {
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= kPi;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}

double Weight(Filter filter, double x) {
  const double distance = std::abs(x);
  switch (filter) {
    case Filter::kBox:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
    case Filter::kBilinear:
      return distance < 1 ? 1 - distance : 0;
    case Filter::kHamming:
      return Hamming(distance);
    case Filter::kBicubic:
      return Cubic(distance);
    case Filter::kLanczos:
      return distance < 3 ? Sinc(x) * Sinc(x / 3) : 0;
    case Filter::kNearest:
      break;
  }
  return 0;
}

double Support(Filter filter) {
  switch (filter) {
    case Filter::kBox:
      return 0.5;
    case Filter::kBicubic:
      return 2;
    case Filter::kLanczos:
      return 3;
    default:
      return 1;
  }
}

// The inputs of one output pixel: weights of the pixels `first`, `first` + 1 ….
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

Taps TapsOf(Filter filter, double center, double stretch, int64_t size) {
  const double support = Support(filter) * stretch;
  Taps taps;
  taps.first =
      std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
  const int64_t end =
      std::min(size, static_cast<int64_t>(center + support + 0.5));
  std::vector<double> weights;
  double sum = 0;
  for (int64_t x = 0; x < end - taps.first; ++x) {
    weights.push_back(
        Weight(filter, (x + taps.first - center + 0.5) * (1 / stretch)));
    sum += weights.back();
  }
  for (double weight : weights) {
    if (sum != 0) weight *= 1 / sum;
    weight *= 1 << kPrecisionBits;
    taps.weights.push_back(
        static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5));
  }
  return taps;
}

std::vector<Taps> TapsOfAxis(Filter filter, int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / to;
  std::vector<Taps> taps;
  for (int64_t x = 0; x < to; ++x) {
    taps.push_back(
        TapsOf(filter, (x + 0.5) * scale, std::max(scale, 1.0), from));
  }
  return taps;
}

uint8_t Round(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

template <int kChannels>
Image ResizeRows(const Image& image, const std::vector<Taps>& taps) {
  Image out = Blank(image.height, taps.size(), kChannels);
  uint8_t* to = out.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = &image.pixels[y * image.width * kChannels];
    for (const Taps& t : taps) {
      int32_t sums[kChannels];
      // Starts at one half, so that Round's shift rounds to nearest.
      std::fill_n(sums, kChannels, 1 << (kPrecisionBits - 1));
      const uint8_t* from = row + t.first * kChannels;
      for (const int32_t weight : t.weights) {
        for (int c = 0; c < kChannels; ++c) sums[c] += *from++ * weight;
      }
      for (int c = 0; c < kChannels; ++c) *to++ = Round(sums[c]);
    }
  }
  return out;
}

Image ResizeColumns(const Image& image, const std::vector<Taps>& taps) {
  Image out = Blank(taps.size(), image.width, image.channels);
  const size_t stride = image.width * image.channels;
  std::vector<int32_t> sums(stride);
  for (size_t y = 0; y < taps.size(); ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (kPrecisionBits - 1));
    const uint8_t* row = &image.pixels[taps[y].first * stride];
    for (const int32_t weight : taps[y].weights) {
      for (size_t x = 0; x < stride; ++x) sums[x] += row[x] * weight;
      row += stride;
    }
    std::transform(sums.begin(), sums.end(), &out.pixels[y * stride], Round);
  }
  return out;
}

Image ResizeWidth(const Image& image, int64_t width, Filter filter) {
  if (width == image.width) return image;
  const auto taps = TapsOfAxis(filter, image.width, width);
  return image.channels == 3 ? ResizeRows<3>(image, taps)
                             : ResizeRows<1>(image, taps);
}

Image ResizeHeight(const Image& image, int64_t height, Filter filter) {
  if (height == image.height) return image;
  return ResizeColumns(image, TapsOfAxis(filter, image.height, height));
}

// Each pass rounds to eight bits, so that the passes' order changes the result:
// this is Pillow 13's order.
bool VerticalFirst(const Image& image, int64_t height, int64_t width) {
  const int64_t less_height = image.height - height;
  return less_height > 0 && less_height > 2 * (image.width - width);
}

// The source of every output pixel. `x` is accumulated step by step as in
// Pillow's ImagingScaleAffine: a product i * scale would round differently and
// choose other pixels.
std::vector<int64_t> NearestOfAxis(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / to;
  std::vector<int64_t> sources;
  double x = scale * 0.5;
  for (int64_t i = 0; i < to; ++i, x += scale) {
    sources.push_back(std::min(static_cast<int64_t>(x), from - 1));
  }
  return sources;
}

Image ResizeNearest(const Image& image, int64_t height, int64_t width) {
  const auto rows = NearestOfAxis(image.height, height);
  const auto columns = NearestOfAxis(image.width, width);
  Image out = Blank(height, width, image.channels);
  uint8_t* to = out.pixels.data();
  for (const int64_t y : rows) {
    for (const int64_t x : columns) {
      to = std::copy_n(&image.pixels[(y * image.width + x) * image.channels],
                       image.channels, to);
    }
  }
  return out;
}

}  // namespace

Image Resize(const Image& image, int64_t height, int64_t width, Filter filter) {
  if (image.height == height && image.width == width) return image;
  if (filter == Filter::kNearest) return ResizeNearest(image, height, width);
  if (VerticalFirst(image, height, width)) {
    return ResizeWidth(ResizeHeight(image, height, filter), width, filter);
  }
  return ResizeHeight(ResizeWidth(image, width, filter), height, filter);
}

}  // namespace mpsd::image
