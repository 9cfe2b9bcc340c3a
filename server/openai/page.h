// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_PAGE_H_
#define MPSD_SERVER_OPENAI_PAGE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/http/target.h"

namespace mpsd::openai {

// Which objects of a list a client asks for, by the query's `limit`, `after`,
// `order` and `metadata[KEY]`.
struct Page {
  int limit = 20;
  std::string after;  // an object's id; empty: from the first
  bool oldest_first = false;
  std::map<std::string, std::string> metadata;  // of the objects wanted
  std::string purpose;
};

// InvalidArgument, beginning with the parameter, for one that is none and for a
// limit beyond limits::kOpenAiPage.
absl::StatusOr<Page> ReadPage(const http::Target& target);

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_PAGE_H_
