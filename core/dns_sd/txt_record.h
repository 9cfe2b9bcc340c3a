// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DNS_SD_TXT_RECORD_H_
#define MPSD_CORE_DNS_SD_TXT_RECORD_H_

#include <map>
#include <string>
#include <string_view>

namespace mpsd::dns_sd {

// What a service tells beside its address, as RFC 6763 writes it.
using TxtRecord = std::map<std::string, std::string>;

// Leaves out what does not fit: an entry has at most 255 bytes.
std::string EncodeTxt(const TxtRecord& record);

// Reads what anybody may have sent: entries without "=" and those behind a
// length that is wrong are left out, as are all after the 32nd.
TxtRecord DecodeTxt(std::string_view bytes);

}  // namespace mpsd::dns_sd

#endif  // MPSD_CORE_DNS_SD_TXT_RECORD_H_
