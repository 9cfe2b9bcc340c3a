// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/file.h"

namespace mpsd {
inline namespace testing_support {

// The page deploy/`page` has `text` between the comments "`name` begin" and
// "`name` end". MPSD_WRITE_REFERENCE=1 writes it there instead.
inline void ExpectInPage(const std::string& page, const std::string& name,
                         const std::string& text) {
  const std::filesystem::path path =
      std::filesystem::path(MPSD_TEST_SOURCE_DIR) / "deploy" / page;
  const std::string readme = *base::ReadFile(path);
  const std::string begin = "<!-- " + name + " begin -->\n\n";
  const size_t before = readme.find(begin);
  ASSERT_NE(before, std::string::npos);
  const size_t start = before + begin.size();
  const size_t to = readme.find("\n<!-- " + name + " end -->\n", start - 1);
  ASSERT_NE(to, std::string::npos);
  if (std::getenv("MPSD_WRITE_REFERENCE") != nullptr) {
    ASSERT_TRUE(base::WriteFileAtomic(
                    path, readme.substr(0, start) + text + readme.substr(to))
                    .ok());
    return;
  }
  EXPECT_EQ(readme.substr(start, to - start), text)
      << "Write it anew: run this test with MPSD_WRITE_REFERENCE=1";
}

}  // namespace testing_support
}  // namespace mpsd
