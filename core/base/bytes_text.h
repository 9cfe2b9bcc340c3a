// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_BYTES_TEXT_H_
#define MPSD_CORE_BASE_BYTES_TEXT_H_

#include <string>

namespace mpsd::base {

// "1.50 GiB", "340.0 MiB", "-3.0 MiB", "1.2 KiB", "512 B": memory and disk in
// the unit of powers of 1,024 that fits, for people.
std::string BytesText(double bytes);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_BYTES_TEXT_H_
