// SPDX-License-Identifier: Apache-2.0
#include "core/data/decode.h"

#include <png.h>

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

#include "absl/strings/ascii.h"
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

// Bytes of a value of a TIFF type; 0 for a type that Pillow does not know.
uint64_t SizeOfType(uint64_t type) {
  constexpr uint8_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2,
                                4, 8, 4, 8, 4, 0, 0, 8};
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

bool IsInteger(uint64_t type) {
  constexpr uint64_t kInteger[] = {3, 4, 6, 8, 9, 13};
  return std::find(std::begin(kInteger), std::end(kInteger), type) !=
         std::end(kInteger);
}

// The orientation in a TIFF file's first directory: 0 without the tag, 1 for an
// invalid value. The search ends at the same faults at which Pillow gives up.
int OfTiff(std::string_view tiff) {
  const bool big_endian = tiff.starts_with("MM");
  if (!big_endian && !tiff.starts_with("II")) return 0;
  const Numbers numbers(tiff, big_endian);
  if (numbers.At(2, 2) != 42) return 0;
  const uint64_t directory = numbers.At(4, 4).value_or(tiff.size());
  const uint64_t entries = numbers.At(directory, 2).value_or(0);
  uint64_t claimed = 0;  // bytes of values outside the directory
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (!numbers.At(entry, 8) || !numbers.At(entry + 8, 4)) return 0;
    const uint64_t tag = *numbers.At(entry, 2),
                   type = *numbers.At(entry + 2, 2);
    const uint64_t count = *numbers.At(entry + 4, 4);
    const uint64_t unit = SizeOfType(type), size = unit * count;
    if (size == 0) continue;
    uint64_t at = entry + 8;
    if (size > 4) {
      claimed += size;
      if (claimed > tiff.size()) continue;
      at = *numbers.At(at, 4);
      if (at > tiff.size() || tiff.size() - at < size) return 0;
    }
    if (tag != kOrientationTag) continue;
    const uint64_t value = *numbers.At(at, static_cast<int>(unit));
    return IsInteger(type) && value >= 1 && value <= 8 ? value : 1;
  }
  return 0;
}

int OfExif(std::string_view exif) {
  for (int i = 0; i < 2 && exif.starts_with(kExifName); ++i) {
    exif.remove_prefix(kExifName.size());
  }
  return OfTiff(exif);
}

int OfXmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != std::string_view::npos;
       at = xmp.find(kName, at)) {
    at += kName.size();
    std::string_view rest = xmp.substr(at);
    const size_t opening = rest.starts_with("=\"") ? 2
                           : rest.starts_with(">") ? 1
                                                   : 0;
    if (opening == 0 || rest.size() <= opening) continue;
    const char digit = rest[opening];
    if (digit >= '0' && digit <= '9') return digit - '0';
  }
  return 0;
}

// The metadata of one file.
struct FoundOrientation {
  std::string exif, xmp;

  int Orientation() const {
    const int exif_says = OfExif(exif);
    return exif_says != 0 ? exif_says : OfXmp(xmp);
  }
};

void TakeApp1(std::string_view segment, FoundOrientation& found) {
  constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  if (segment.starts_with(kExifName)) {
    found.exif += segment.substr(kExifName.size());
  } else if (segment.starts_with(kXmp)) {
    found.xmp = segment.substr(kXmp.size());
  }
}

// Reads the segments before the first scan.
FoundOrientation OfJpeg(std::string_view bytes) {
  FoundOrientation found;
  const Numbers numbers(bytes, /*big_endian=*/true);
  for (size_t at = 2; at + 1 < bytes.size();) {
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
    if (marker == 0xe1) TakeApp1(bytes.substr(at + 2, length - 2), found);
    at += length;
  }
  return found;
}

// Decodes an ImageMagick profile: three lines of heading, then lines of
// hexadecimal digits.
std::string OfRawProfile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string bytes;
  int high = -1;  // a byte's first digit; -1 before it
  for (const char c : text) {
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) continue;
    const size_t digit =
        kDigits.find(absl::ascii_tolower(static_cast<unsigned char>(c)));
    if (digit == std::string_view::npos) return "";
    if (high >= 0) bytes += static_cast<char>(high * 16 + digit);
    high = high >= 0 ? -1 : static_cast<int>(digit);
  }
  return high >= 0 ? "" : bytes;
}

// Cuts `text` at its first NUL byte and returns the part before it; all of
// `text` if it has none.
std::string_view TakeWord(std::string_view& text) {
  const size_t end = std::min(text.find('\0'), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// The text in a chunk whose name was already removed; empty for a compressed
// chunk.
std::string TextOf(std::string_view kind, std::string_view chunk) {
  if (kind == "tEXt") return std::string(chunk);
  if (chunk.size() < 2 || chunk[0] != 0) return "";
  chunk.remove_prefix(2);
  TakeWord(chunk);  // the language tag
  TakeWord(chunk);  // the translated keyword
  return std::string(chunk);
}

FoundOrientation OfPng(std::string_view bytes) {
  FoundOrientation found;
  std::string profile;
  const Numbers numbers(bytes, /*big_endian=*/true);
  for (uint64_t at = 8; numbers.At(at, 8);) {
    const uint64_t length = *numbers.At(at, 4);
    const std::string_view kind = bytes.substr(at + 4, 4);
    if (kind == "IEND" || length > bytes.size() - at - 8) break;
    std::string_view chunk = bytes.substr(at + 8, length);
    if (kind == "eXIf") {
      found.exif = chunk;
    } else if (kind == "tEXt" || kind == "iTXt") {
      const std::string_view name = TakeWord(chunk);
      if (name == "Raw profile type exif") profile = TextOf(kind, chunk);
      if (name == "XML:com.adobe.xmp") found.xmp = TextOf(kind, chunk);
    }
    at += 12 + length;  // length, kind, content and CRC
  }
  if (found.exif.empty()) found.exif = OfRawProfile(profile);
  return found;
}

}  // namespace

int ReadOrientation(std::string_view bytes) {
  int orientation = 0;
  if (IsJpeg(bytes)) orientation = OfJpeg(bytes).Orientation();
  if (IsPng(bytes)) orientation = OfPng(bytes).Orientation();
  return orientation >= 1 && orientation <= 8 ? orientation : 1;
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

absl::StatusOr<Image> Decode(std::string_view bytes, const std::string& name,
                             bool header_only) {
  Decoded decoded;
  if (IsPng(bytes)) {
    decoded = DecodePng(bytes, header_only);
  } else if (IsJpeg(bytes)) {
    decoded = DecodeJpeg(bytes, header_only);
  } else {
    decoded.error = bytes.empty() ? "the file is empty, expected PNG or JPEG"
                                  : "neither PNG nor JPEG";
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

absl::StatusOr<ImageSize> ReadImageSize(std::string_view bytes,
                                        const std::string& name) {
  ASSIGN_OR_RETURN(auto image, Decode(bytes, name, /*header_only=*/true));
  return ImageSize{image.height, image.width};
}

}  // namespace mpsd::image
