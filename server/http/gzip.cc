// SPDX-License-Identifier: Apache-2.0
#include "server/http/gzip.h"

#define ZLIB_CONST  // deflate does not write to its input
#include <zlib.h>

#include "core/base/check.h"
#include "server/http/negotiate.h"

namespace mpsd::http {
namespace {

constexpr size_t kLeastBytes = 1024;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip's frame

}  // namespace

std::string Gzip(const std::string& text) {
  z_stream stream{};
  base::Check(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow,
                           /*memLevel=*/8, Z_DEFAULT_STRATEGY) == Z_OK,
              "zlib has its memory");
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  base::Check(deflate(&stream, Z_FINISH) == Z_STREAM_END,
              "deflateBound bounds the packed size");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Response Compressed(const Request& request, Response response) {
  response.headers.emplace_back("Vary", "Accept, Accept-Encoding");
  if (response.body.size() < kLeastBytes ||
      !AcceptsGzip(request.accept_encoding)) {
    return response;
  }
  response.body = Gzip(response.body);
  response.headers.emplace_back("Content-Encoding", "gzip");
  return response;
}

}  // namespace mpsd::http
