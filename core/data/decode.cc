// SPDX-License-Identifier: Apache-2.0
#include "core/data/decode.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/codec.h"
#include "core/data/orientation.h"

namespace mpsd::image {
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

std::string SizeError(int64_t height, int64_t width) {
  if (height < 1 || width < 1) return "an image without pixels";
  if (height <= kMaxPixels / width) return "";
  return absl::StrCat("an image of ", width, "x", height, " pixels, at most ",
                      kMaxPixels, " are decoded");
}

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
