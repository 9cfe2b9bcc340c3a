// SPDX-License-Identifier: Apache-2.0
#include "core/data/decode.h"

#include <png.h>
#include <webp/decode.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

// jpeglib.h needs size_t and FILE, and comes before jerror.h.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace mpsd::image {

std::string SizeError(int64_t height, int64_t width) {
  if (height < 1 || width < 1) return "an image without pixels";
  if (height <= kMaxPixels / width) return "";
  return absl::StrCat("an image of ", width, "x", height, " pixels, at most ",
                      kMaxPixels, " are decoded");
}

namespace {

struct Input {
  const char* next;
  size_t left;
  char error[160] = "";
};

void FailPng(png_structp png, png_const_charp message) {
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
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, FailPng, Ignore);
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

namespace {

struct Errors {
  jpeg_error_mgr manager;  // first: libjpeg sees only this part
  jmp_buf jump;
  bool cut_short = false;
  char message[JMSG_LENGTH_MAX] = "";
};

void FailJpeg(j_common_ptr info) {
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
  errors.manager.error_exit = FailJpeg;
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

bool IsWebp(std::string_view bytes) {
  return bytes.size() >= 12 && bytes.starts_with("RIFF") &&
         bytes.substr(8, 4) == "WEBP";
}

Decoded DecodeWebp(std::string_view bytes, bool header_only) {
  constexpr char kDamaged[] =
      "a damaged WebP: the file is cut short or altered";
  Decoded decoded;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPBitstreamFeatures found;
  if (WebPGetFeatures(data, bytes.size(), &found) != VP8_STATUS_OK) {
    decoded.error = kDamaged;
    return decoded;
  }
  Image& image = decoded.image;
  image.height = found.height;
  image.width = found.width;
  decoded.error = found.has_animation
                      ? "an animated WebP; save one of its frames as PNG"
                      : SizeError(image.height, image.width);
  if (!decoded.error.empty() || header_only) return decoded;
  image.pixels.resize(image.height * image.width * 3);
  if (WebPDecodeRGBInto(data, bytes.size(), image.pixels.data(),
                        image.pixels.size(), found.width * 3) == nullptr) {
    decoded.error = kDamaged;
  }
  return decoded;
}

namespace {

using namespace std::string_view_literals;

constexpr uint64_t kOrientationTag = 0x0112;
constexpr std::string_view kExifName = "Exif\0\0"sv;

// Reads unsigned integers from bytes; nullopt beyond the bytes' end.
class Numbers {
 public:
  Numbers(std::string_view bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<uint64_t> At(uint64_t offset, int size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < uint64_t(size)) {
      return std::nullopt;
    }
    uint64_t value = 0;
    for (int i = 0; i < size; ++i) {
      const int byte = big_endian_ ? i : size - 1 - i;
      value = value << 8 | static_cast<uint8_t>(bytes_[offset + byte]);
    }
    return value;
  }

 private:
  const std::string_view bytes_;
  const bool big_endian_;
};

// The orientation in the first directory of EXIF's TIFF file; 1 without one.
// Its type is SHORT, or LONG in files of some programs.
int OfExif(std::string_view exif) {
  for (int i = 0; i < 2 && exif.starts_with(kExifName); ++i) {
    exif.remove_prefix(kExifName.size());
  }
  const bool big_endian = exif.starts_with("MM");
  if (!big_endian && !exif.starts_with("II")) return 1;
  const Numbers numbers(exif, big_endian);
  if (numbers.At(2, 2) != 42) return 1;
  const uint64_t directory = numbers.At(4, 4).value_or(exif.size());
  const uint64_t entries = numbers.At(directory, 2).value_or(0);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (!numbers.At(entry + 8, 4)) return 1;
    const uint64_t type = *numbers.At(entry + 2, 2);
    if (numbers.At(entry, 2) != kOrientationTag || (type != 3 && type != 4)) {
      continue;
    }
    const uint64_t value = *numbers.At(entry + 8, type == 3 ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// Where the first scan of a JPEG begins, or the segments before it end; adds
// their EXIF to `exif` unless it is null.
size_t FirstScanOfJpeg(std::string_view bytes, std::string* exif) {
  const Numbers numbers(bytes, /*big_endian=*/true);
  size_t at = 2;
  while (at + 1 < bytes.size()) {
    const auto marker = static_cast<uint8_t>(bytes[at + 1]);
    if (bytes[at] != '\xff' || marker == 0xff || marker == 0) {
      ++at;  // skips fill bytes and junk
      continue;
    }
    if (marker == 0xda || marker == 0xd9) break;
    at += 2;
    // The markers TEM, RSTn and SOI have no length and no content.
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) continue;
    const uint64_t length = numbers.At(at, 2).value_or(0);
    if (length < 2 || length > bytes.size() - at) break;
    const std::string_view segment = bytes.substr(at + 2, length - 2);
    if (exif != nullptr && marker == 0xe1 && segment.starts_with(kExifName)) {
      *exif += segment.substr(kExifName.size());
    }
    at += length;
  }
  return at;
}

// The EXIF of a PNG's or else a WebP's chunk.
std::string_view ExifOfChunks(std::string_view bytes, bool png) {
  const Numbers numbers(bytes, /*big_endian=*/png);
  for (uint64_t at = png ? 8 : 12; numbers.At(at, 8);) {
    const uint64_t length = *numbers.At(png ? at : at + 4, 4);
    const std::string_view kind = bytes.substr(png ? at + 4 : at, 4);
    if (kind == "IEND" || length > bytes.size() - at - 8) break;
    if (kind == (png ? "eXIf" : "EXIF")) return bytes.substr(at + 8, length);
    at += 8 + length + (png ? 4 : length % 2);  // CRC; padding
  }
  return "";
}

}  // namespace

int ReadOrientation(std::string_view bytes) {
  if (IsJpeg(bytes)) {
    std::string exif;
    FirstScanOfJpeg(bytes, &exif);
    return OfExif(exif);
  }
  return OfExif(ExifOfChunks(bytes, IsPng(bytes)));
}

Image Upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const bool on_side = LiesOnSide(orientation);
  const bool from_bottom = orientation == 3 || orientation == 4 ||
                           orientation == 6 || orientation == 7;
  const bool from_right = orientation == 2 || orientation == 3 ||
                          orientation == 7 || orientation == 8;
  Image out = Blank(on_side ? image.width : image.height,
                    on_side ? image.height : image.width, image.channels);
  const int64_t c = image.channels;
  for (int64_t y = 0; y < out.height; ++y) {
    for (int64_t x = 0; x < out.width; ++x) {
      int64_t row = on_side ? x : y, column = on_side ? y : x;
      if (from_bottom) row = image.height - 1 - row;
      if (from_right) column = image.width - 1 - column;
      std::copy_n(&image.pixels[(row * image.width + column) * c], c,
                  &out.pixels[(y * out.width + x) * c]);
    }
  }
  return out;
}

namespace {

// Why bytes are no image; formats that phones and scanners write are named.
std::string FormatFault(std::string_view bytes) {
  if (bytes.empty()) return "the file is empty, expected PNG, JPEG or WebP";
  constexpr std::pair<std::string_view, const char*> kOthers[] = {
      {"GIF8", "GIF"},          {"BM", "BMP"},
      {"II*\0"sv, "TIFF"},      {"MM\0*"sv, "TIFF"},
      {"....ftyphe", "HEIC"},   {"....ftypmif1", "HEIC"},
      {"....ftypmsf1", "HEIC"}, {"....ftypavif", "AVIF"}};
  for (const auto& [begin, name] : kOthers) {
    const size_t skipped = begin.starts_with('.') ? 4 : 0;  // a size
    if (bytes.size() > begin.size() &&
        bytes.substr(skipped).starts_with(begin.substr(skipped))) {
      return absl::StrCat("a ", name,
                          " image; expected PNG, JPEG or WebP: convert it, for "
                          "example with ImageMagick's \"magick FILE FILE.png\" "
                          "or a Mac's Preview");
    }
  }
  return "neither PNG, JPEG nor WebP";
}

absl::StatusOr<Image> Decode(std::string_view bytes, const std::string& name,
                             bool header_only) {
  Decoded decoded;
  if (IsPng(bytes)) {
    decoded = DecodePng(bytes, header_only);
  } else if (IsJpeg(bytes)) {
    decoded = DecodeJpeg(bytes, header_only);
  } else if (IsWebp(bytes)) {
    decoded = DecodeWebp(bytes, header_only);
  } else {
    decoded.error = FormatFault(bytes);
  }
  if (!decoded.error.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", decoded.error));
  }
  const int orientation = ReadOrientation(bytes);
  if (!header_only) return Upright(std::move(decoded.image), orientation);
  if (LiesOnSide(orientation)) {
    std::swap(decoded.image.height, decoded.image.width);
  }
  return std::move(decoded.image);
}

}  // namespace

absl::StatusOr<Image> DecodeImage(std::string_view bytes,
                                  const std::string& name) {
  return Decode(bytes, name, /*header_only=*/false);
}

namespace {

// Whether the file ends before its image does, as far as that shows without
// decoding it.
bool IsCutShort(std::string_view bytes) {
  const auto byte = [&bytes](size_t at) {
    return static_cast<size_t>(static_cast<uint8_t>(bytes[at]));
  };
  if (IsJpeg(bytes)) {
    // A thumbnail among the segments has an end of its own.
    const size_t end = bytes.rfind("\xff\xd9");
    return end == bytes.npos || end < FirstScanOfJpeg(bytes, nullptr);
  }
  if (IsWebp(bytes)) {
    return (byte(7) << 24 | byte(6) << 16 | byte(5) << 8 | byte(4)) >
           bytes.size() - 8;
  }
  size_t chunk = 8;  // length, name, contents and checksum each
  while (chunk + 12 <= bytes.size() && bytes.substr(chunk + 4, 4) != "IEND") {
    chunk += 12 + (byte(chunk) << 24 | byte(chunk + 1) << 16 |
                   byte(chunk + 2) << 8 | byte(chunk + 3));
  }
  return chunk > bytes.size();
}

}  // namespace

absl::StatusOr<ImageSize> ReadImageSize(std::string_view bytes,
                                        const std::string& name) {
  ASSIGN_OR_RETURN(auto image, Decode(bytes, name, /*header_only=*/true));
  if (IsCutShort(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": damaged: the file is cut short"));
  }
  return ImageSize{image.height, image.width};
}

}  // namespace mpsd::image
