// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "core/data/codec.h"

namespace mpsd::image {
namespace {

struct Input {
  const char* next;
  size_t left;
  char error[160] = "";
};

void Fail(png_structp png, png_const_charp message) {
  auto* input = static_cast<Input*>(png_get_error_ptr(png));
  std::strncpy(input->error, message, sizeof(input->error) - 1);
  png_longjmp(png, 1);
}

void Ignore(png_structp, png_const_charp) {}

void Read(png_structp png, png_bytep out, size_t count) {
  auto* input = static_cast<Input*>(png_get_io_ptr(png));
  if (count > input->left) png_error(png, "the file is cut short");
  std::memcpy(out, input->next, count);
  input->next += count;
  input->left -= count;
}

// Makes libpng convert everything to eight-bit RGB, except 16-bit grey.
void AskForRgb(png_structp png, png_infop info, bool grey16) {
  const int type = png_get_color_type(png, info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) < 8) {
    png_set_expand_gray_1_2_4_to_8(png);
  }
  if (!grey16) {
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
  }
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

// False after an error, which is then in `input` or in `decoded`. longjmp runs
// no destructor: `rows` belongs to the caller.
bool ReadPng(png_structp png, png_infop info, Input* input, bool header_only,
             Decoded* decoded, std::vector<png_bytep>* rows, bool* grey16) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  png_set_read_fn(png, input, Read);
  png_read_info(png, info);
  Image& image = decoded->image;
  image.height = png_get_image_height(png, info);
  image.width = png_get_image_width(png, info);
  decoded->error = SizeError(image.height, image.width);
  if (!decoded->error.empty() || header_only) return decoded->error.empty();
  *grey16 = png_get_bit_depth(png, info) == 16 &&
            png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY;
  AskForRgb(png, info, *grey16);
  const size_t stride = png_get_rowbytes(png, info);
  image.pixels.resize(image.height * stride);
  for (int64_t y = 0; y < image.height; ++y) {
    rows->push_back(&image.pixels[y * stride]);
  }
  png_read_image(png, rows->data());
  return true;
}

// Pillow's conversion of "I;16" to "RGB": values above 255 become 255
// (libImaging/Convert.c, I16_RGB).
void CutGrey16(Image& image) {
  std::vector<uint8_t> rgb(image.height * image.width * 3);
  for (size_t i = 0; 2 * i < image.pixels.size(); ++i) {
    const uint8_t* big_endian = &image.pixels[2 * i];
    std::fill_n(&rgb[3 * i], 3, big_endian[0] > 0 ? 255 : big_endian[1]);
  }
  image.pixels = std::move(rgb);
}

}  // namespace

bool IsPng(std::string_view bytes) {
  return bytes.starts_with("\x89PNG\r\n\x1a\n");
}

Decoded DecodePng(std::string_view bytes, bool header_only) {
  Decoded decoded;
  Input input{bytes.data(), bytes.size()};
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, Fail, Ignore);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    decoded.error = "no memory to decode";
    return decoded;
  }
  std::vector<png_bytep> rows;
  bool grey16 = false;
  const bool read =
      ReadPng(png, info, &input, header_only, &decoded, &rows, &grey16);
  png_destroy_read_struct(&png, &info, nullptr);
  if (!read && decoded.error.empty()) {
    decoded.error = std::string("a damaged PNG: ") + input.error;
  }
  if (read && grey16) CutGrey16(decoded.image);
  return decoded;
}

}  // namespace mpsd::image
