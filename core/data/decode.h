// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/data/image.h"

namespace mpsd::image {

// Images of more pixels are rejected before they are decoded; Pillow warns of a
// decompression bomb at this size (Image.MAX_IMAGE_PIXELS).
inline constexpr int64_t kMaxPixels = 89'478'485;

// Decodes a PNG's, JPEG's or WebP's bytes to RGB as Transformers' load_image
// does, that is PIL's ImageOps.exif_transpose(Image.open(…)).convert("RGB"):
// the image is rotated upright by its EXIF orientation, transparency is dropped
// without blending, 16-bit grey is clipped at 255. The bytes determine the
// encoding, not the name.
//
// InvalidArgument "<name>: …" for other files, which names GIF, BMP, TIFF, HEIC
// and AVIF, for animations, for damaged and truncated files and for more than
// kMaxPixels.
absl::StatusOr<Image> DecodeImage(std::string_view bytes,
                                  const std::string& name);

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
};
// The size of the upright image, read only from the header; errors as
// DecodeImage, but for damage that only decoding finds.
absl::StatusOr<ImageSize> ReadImageSize(std::string_view bytes,
                                        const std::string& name);

// --- codecs ------------------------------------------------------------------
// libpng and libjpeg report errors by longjmp: no object with a destructor may
// exist in a frame that is jumped over.

// A codec's result: `pixels` in DecodeImage's form, or empty if only the header
// was read. `error` is empty on success, else a phrase such as "is cut short".
struct Decoded {
  Image image;
  std::string error;
};

bool IsPng(std::string_view bytes);
Decoded DecodePng(std::string_view bytes, bool header_only);

bool IsJpeg(std::string_view bytes);
Decoded DecodeJpeg(std::string_view bytes, bool header_only);

bool IsWebp(std::string_view bytes);
Decoded DecodeWebp(std::string_view bytes, bool header_only);

// The reason why an image of this size may not be decoded, or "".
std::string SizeError(int64_t height, int64_t width);

// --- orientation -------------------------------------------------------------

// The camera's orientation, by EXIF's numbers: 1 upright, 2 to 8 mirrored,
// rotated or both; images of 5 to 8 are on their side.
//
// Reads the orientation from tag 0x0112 of EXIF's first directory, in a JPEG's
// APP1 segments, a PNG's eXIf chunk or a WebP's EXIF chunk. 1 without it and
// for damaged and other files. Pillow's ImageOps.exif_transpose also looks into
// XMP, ImageMagick's text chunks and tags of other types: those images stay as
// they are.
int ReadOrientation(std::string_view bytes);

// The image rotated upright. Unknown orientations change nothing.
Image Upright(Image image, int orientation);

// Whether rotating the image upright swaps height and width.
inline bool LiesOnSide(int orientation) {
  return orientation >= 5 && orientation <= 8;
}

}  // namespace mpsd::image
