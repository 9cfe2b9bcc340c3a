// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_IMAGE_ORIENTATION_H_
#define MPSD_CORE_IMAGE_ORIENTATION_H_

#include <string_view>

#include "core/image/image.h"

namespace mpsd::image {

// How a camera was held, as EXIF counts it: 1 upright, 2 to 8 mirrored, turned
// or both; 5 to 8 lie on a side.
//
// Of a PNG's or JPEG's bytes, where Pillow's ImageOps.exif_transpose looks
// (Image.getexif): tag 0x0112 of the first directory of a JPEG's APP1 segments,
// of a PNG's eXIf chunk or its "Raw profile type exif"; where there is no such
// tag, tiff:Orientation in the XMP of either. A PNG's packed texts (zTXt) are
// not looked into. 1 for all else: none, damaged, no image.
int ReadOrientation(std::string_view bytes);

// The image as it is to be looked at. Unknown orientations change nothing.
Image Upright(Image image, int orientation);

// Whether height and width change places.
inline bool LiesOnSide(int orientation) {
  return orientation >= 5 && orientation <= 8;
}

}  // namespace mpsd::image

#endif  // MPSD_CORE_IMAGE_ORIENTATION_H_
