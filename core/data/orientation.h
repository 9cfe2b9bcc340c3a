// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_ORIENTATION_H_
#define MPSD_CORE_DATA_ORIENTATION_H_

#include <string_view>

#include "core/data/image.h"

namespace mpsd::image {

// The camera's orientation, by EXIF's numbers: 1 upright, 2 to 8 mirrored,
// rotated or both; images of 5 to 8 are on their side.
//
// Reads the orientation from a PNG's or JPEG's bytes where Pillow's
// ImageOps.exif_transpose looks (Image.getexif): tag 0x0112 in the first
// directory of a JPEG's APP1 segments, or of a PNG's eXIf chunk or "Raw profile
// type exif"; without this tag, tiff:Orientation in the file's XMP. A PNG's
// compressed texts (zTXt) are not searched. 1 for files without an orientation,
// damaged files and other files.
int ReadOrientation(std::string_view bytes);

// The image rotated upright. Unknown orientations change nothing.
Image Upright(Image image, int orientation);

// Whether rotating the image upright swaps height and width.
inline bool LiesOnSide(int orientation) {
  return orientation >= 5 && orientation <= 8;
}

}  // namespace mpsd::image

#endif  // MPSD_CORE_DATA_ORIENTATION_H_
