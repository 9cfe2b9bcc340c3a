// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_GZIP_H_
#define MPSD_SERVER_HTTP_GZIP_H_

#include <string>

#include "server/http/message.h"

namespace mpsd::http {

// `text` in the gzip format.
std::string Gzip(const std::string& text);

// Compresses the body where the client reads gzip and the body is long enough
// to get shorter.
Response Compressed(const Request& request, Response response);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_GZIP_H_
