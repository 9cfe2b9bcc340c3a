// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_CRC32C_H_
#define MPSD_CORE_REPORT_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace mpsd::tensorboard {

// CRC-32C (Castagnoli; RFC 3720, B.4). Abseil has this only since its 2023
// release.
uint32_t Crc32c(std::string_view bytes);

// What a record stores instead of the CRC, so that the CRC of bytes that
// contain CRCs stays a good one.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace mpsd::tensorboard

#endif  // MPSD_CORE_REPORT_CRC32C_H_
