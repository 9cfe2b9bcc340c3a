// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_IMAGE_DECODE_H_
#define MPSD_CORE_IMAGE_DECODE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/image/image.h"

namespace mpsd::image {

// Images of more pixels are refused before they are unpacked: what Pillow
// warns of as a decompression bomb (Image.MAX_IMAGE_PIXELS).
inline constexpr int64_t kMaxPixels = 89'478'485;

// A PNG's or JPEG's bytes to RGB as Transformers' load_image gives, that is
// PIL's ImageOps.exif_transpose(Image.open(…)).convert("RGB"): turned upright
// by the orientation in its EXIF, transparency left out and not blended, grey
// of 16 bits cut at 255. The encoding is told by the bytes, not by the name.
//
// InvalidArgument "<name>: …" for other files, for damaged and cut ones and
// for more than kMaxPixels.
absl::StatusOr<Image> DecodeImage(std::string_view bytes,
                                  const std::string& name);

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
};
// Of the upright image, from the header alone; errors as above.
absl::StatusOr<ImageSize> ReadImageSize(std::string_view bytes,
                                        const std::string& name);

}  // namespace mpsd::image

#endif  // MPSD_CORE_IMAGE_DECODE_H_
