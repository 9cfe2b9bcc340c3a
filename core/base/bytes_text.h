// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_BYTES_TEXT_H_
#define MPSD_CORE_BASE_BYTES_TEXT_H_

#include <string>

namespace mpsd::base {

// Human-readable bytes in the power of 1,024 that fits: "1.50 GiB", "340.0
// MiB", "-3.0 MiB", "1.2 KiB", "512 B".
std::string BytesText(double bytes);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_BYTES_TEXT_H_
