// SPDX-License-Identifier: Apache-2.0
#include "server/http/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace mpsd::http {
namespace {

using testing::Contains;
using testing::Not;
using testing::Pair;

std::string Unzipped(const std::string& packed, size_t size) {
  std::string text(size, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string input = packed;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = input.size();
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = text.size();
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.total_out, size);
  inflateEnd(&stream);
  return text;
}

std::string Noise(size_t size) {
  std::string text;
  for (unsigned n = 1; text.size() < size; n = n * 1664525u + 1013904223u) {
    text += static_cast<char>(n >> 24);
  }
  return text;
}

TEST(Gzip, ComesBackAsItWas) {
  for (const std::string& text : {std::string(), std::string("x"),
                                  std::string(1 << 20, 'x'), Noise(1 << 20)}) {
    EXPECT_EQ(Unzipped(Gzip(text), text.size()), text);
  }
  EXPECT_LT(Gzip(std::string(1 << 20, 'x')).size(), 10'000u);
}

TEST(Compressed, OnlyWhereItHelpsAndTheClientReadsIt) {
  const Request reads{.accept_encoding = "gzip"};
  const std::string text(5000, 'x');
  const Response packed = Compressed(reads, {.body = text});
  EXPECT_EQ(Unzipped(packed.body, text.size()), text);
  EXPECT_THAT(packed.headers, Contains(Pair("Content-Encoding", "gzip")));
  EXPECT_THAT(packed.headers, Contains(Pair("Vary", testing::_)));
  for (const Response& plain :
       {Compressed({}, {.body = text}), Compressed(reads, {.body = "short"})}) {
    EXPECT_THAT(plain.headers, Not(Contains(Pair("Content-Encoding", "gzip"))));
    EXPECT_THAT(plain.headers, Contains(Pair("Vary", testing::_)));
  }
}

}  // namespace
}  // namespace mpsd::http
