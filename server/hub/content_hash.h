// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_CONTENT_HASH_H_
#define MPSD_SERVER_HUB_CONTENT_HASH_H_

#include <memory>
#include <string>
#include <string_view>

#include "server/hub/listing.h"

namespace mpsd::hub {

// The hash by which a hub names a file's content, over bytes as they come:
// SHA-256, or git's SHA-1 of the header "blob SIZE\0" with the content.
class ContentHash {
 public:
  explicit ContentHash(const HubFile& file);
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void Update(std::string_view bytes);
  // In lower-case hexadecimal digits. The object cannot be used afterwards.
  std::string FinishHex();

 private:
  struct Context;
  const std::unique_ptr<Context> context_;
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_CONTENT_HASH_H_
