// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_UTF8_H_
#define MPSD_SERVER_SUPERVISOR_UTF8_H_

#include <string>

namespace mpsd::supervisor {

// `bytes` with '?' for every byte that is not part of a UTF-8 character, and
// for NUL: what a worker writes must fit into JSON and protobuf strings.
std::string AsUtf8(const std::string& bytes);

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_UTF8_H_
