// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_CODEC_H_
#define MPSD_CORE_DATA_CODEC_H_

#include <string>
#include <string_view>

#include "core/data/decode.h"
#include "core/data/image.h"

// libpng and libjpeg, which report errors by longjmp: no object with a
// destructor may exist in a frame that is jumped over.
namespace mpsd::image {

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

// The reason why an image of this size may not be decoded, or "".
std::string SizeError(int64_t height, int64_t width);

}  // namespace mpsd::image

#endif  // MPSD_CORE_DATA_CODEC_H_
