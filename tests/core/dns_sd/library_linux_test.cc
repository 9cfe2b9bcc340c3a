// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/dns_sd/library.h"

namespace mpsd::dns_sd {
namespace {

TEST(SystemLibrary, HasEveryFunctionOrIsNone) {
  const Library* library = SystemLibrary();
#ifdef __APPLE__
  ASSERT_NE(library, nullptr);
#endif
  if (library == nullptr) GTEST_SKIP() << "Avahi's library is not installed";
  EXPECT_NE(library->enroll, nullptr);
  EXPECT_NE(library->browse, nullptr);
  EXPECT_NE(library->resolve, nullptr);
  EXPECT_NE(library->socket, nullptr);
  EXPECT_NE(library->process, nullptr);
  EXPECT_NE(library->deallocate, nullptr);
  EXPECT_EQ(SystemLibrary(), library);
}

}  // namespace
}  // namespace mpsd::dns_sd
