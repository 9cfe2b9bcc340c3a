// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_TEXTS_H_
#define MPSD_SERVER_DOCTOR_TEXTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

// Texts of findings.
namespace mpsd::doctor {

// A text of another program or of a file: one line without what steers a
// terminal, of at most 256 bytes.
std::string Foreign(std::string_view text);

std::string BytesText(double bytes);      // "12.3 GB"; powers of 1,000
std::string AgeText(absl::Duration age);  // "42 s", "3 h", "12 days"
std::string PercentText(double ratio);    // "62 %"

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_TEXTS_H_
