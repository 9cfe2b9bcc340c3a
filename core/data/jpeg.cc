// SPDX-License-Identifier: Apache-2.0
// jpeglib.h needs these two headers before it.
#include <cstddef>
#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>

#include "core/data/codec.h"

namespace mpsd::image {
namespace {

struct Errors {
  jpeg_error_mgr manager;  // first: libjpeg sees only this part
  jmp_buf jump;
  bool cut_short = false;
  char message[JMSG_LENGTH_MAX] = "";
};

void Fail(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  errors->manager.format_message(info, errors->message);
  longjmp(errors->jump, 1);
}

// libjpeg invents an end for a file without one, which is an error here; all
// other warnings concern damage that PIL ignores too.
void Warn(j_common_ptr info, int level) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) {
    errors->cut_short = true;
  }
}

// False after an error, which is then in `errors` or in `decoded`. longjmp runs
// no destructor: objects with one belong to the caller, or end before the next
// call into libjpeg.
bool ReadJpeg(jpeg_decompress_struct* info, Errors* errors,
              std::string_view bytes, bool header_only, Decoded* decoded) {
  if (setjmp(errors->jump)) return false;
  jpeg_create_decompress(info);
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(bytes.data()),
               bytes.size());
  jpeg_read_header(info, TRUE);
  Image& image = decoded->image;
  image.height = info->image_height;
  image.width = info->image_width;
  decoded->error = SizeError(image.height, image.width);
  if (!decoded->error.empty() || header_only) return decoded->error.empty();
  info->out_color_space = info->num_components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(info);
  image.channels = info->output_components;
  const size_t stride = image.width * image.channels;
  image.pixels.resize(image.height * stride);
  while (info->output_scanline < info->output_height) {
    JSAMPROW row = &image.pixels[info->output_scanline * stride];
    jpeg_read_scanlines(info, &row, 1);
  }
  return true;
}

int MultiplyDivide255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// PIL treats every CMYK JPEG as Adobe's, which stores 255 minus the ink
// (libImaging/Convert.c, cmyk2rgb).
void InvertedCmykToRgb(Image& image) {
  std::vector<uint8_t> rgb(image.height * image.width * 3);
  for (size_t i = 0; 4 * i < image.pixels.size(); ++i) {
    const uint8_t* p = &image.pixels[4 * i];
    for (int c = 0; c < 3; ++c) {
      rgb[3 * i + c] = p[3] - MultiplyDivide255(255 - p[c], p[3]);
    }
  }
  image.pixels = std::move(rgb);
  image.channels = 3;
}

}  // namespace

bool IsJpeg(std::string_view bytes) {
  return bytes.starts_with("\xff\xd8\xff");
}

Decoded DecodeJpeg(std::string_view bytes, bool header_only) {
  Decoded decoded;
  jpeg_decompress_struct info = {};
  Errors errors;
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = Fail;
  errors.manager.emit_message = Warn;
  const bool read = ReadJpeg(&info, &errors, bytes, header_only, &decoded);
  jpeg_destroy_decompress(&info);
  if (!read && decoded.error.empty()) {
    decoded.error = std::string("a damaged JPEG: ") + errors.message;
  } else if (read && errors.cut_short) {
    decoded.error = "a damaged JPEG: the file is cut short";
  }
  if (decoded.image.channels == 4) InvertedCmykToRgb(decoded.image);
  return decoded;
}

}  // namespace mpsd::image
