// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_DECODE_H_
#define MPSD_CORE_DATA_DECODE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/data/image.h"

namespace mpsd::image {

// Images of more pixels are rejected before they are decoded; Pillow warns of a
// decompression bomb at this size (Image.MAX_IMAGE_PIXELS).
inline constexpr int64_t kMaxPixels = 89'478'485;

// Decodes a PNG's or JPEG's bytes to RGB as Transformers' load_image does, that
// is PIL's ImageOps.exif_transpose(Image.open(…)).convert("RGB"): the image is
// rotated upright by its EXIF orientation, transparency is dropped without
// blending, 16-bit grey is clipped at 255. The bytes determine the encoding,
// not the name.
//
// InvalidArgument "<name>: …" for other files, for damaged and truncated ones
// and for more than kMaxPixels.
absl::StatusOr<Image> DecodeImage(std::string_view bytes,
                                  const std::string& name);

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
};
// The size of the upright image, read only from the header; errors as
// DecodeImage.
absl::StatusOr<ImageSize> ReadImageSize(std::string_view bytes,
                                        const std::string& name);

}  // namespace mpsd::image

#endif  // MPSD_CORE_DATA_DECODE_H_
