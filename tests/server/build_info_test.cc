// SPDX-License-Identifier: Apache-2.0
#include "server/build_info.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"

namespace mpsd {
namespace {

using testing::HasSubstr;

TEST(BuildInfo, SaysWhatWasBuilt) {
  const auto info = BuildInfo();
  EXPECT_EQ(info.size(), 4u);
  EXPECT_EQ(info.at("version"), MPSD_VERSION);
  EXPECT_NE(info.at("compiler"), "");
  EXPECT_THAT(
      info.at("commit"),
      testing::AnyOf("unknown", testing::MatchesRegex("[0-9a-f]+(-dirty)?")));
  EXPECT_THAT(info.at("torch"),
              testing::AnyOf("unknown", testing::MatchesRegex("[0-9]+\\..*")));
}

// server/build_commit.cmake in a folder of its own.
class BuildCommitTest : public testing::Test {
 protected:
  BuildCommitTest() {
    if (Run("cmake --version && git --version") != 0) missing_ = true;
  }
  void SetUp() override {
    if (missing_) GTEST_SKIP() << "cmake or git is missing";
  }

  int Run(const std::string& command) const {
    return std::system(("cd '" + folder_.string() +
                        "' && GIT_CEILING_DIRECTORIES='" +
                        folder_.parent_path().string() +
                        "' && export "
                        "GIT_CEILING_DIRECTORIES && { " +
                        command + "; } > output 2>&1")
                           .c_str());
  }
  void Git(const std::string& arguments) const {
    EXPECT_EQ(Run("git -c user.name=a -c user.email=a@b " + arguments), 0)
        << base::ReadFile(folder_ / "output").value_or("");
  }
  std::string Commit(const std::string& source = ".") const {
    EXPECT_EQ(Run("cmake -DSOURCE=\"$PWD/" + source +
                  "\" -DOUTPUT=\"$PWD/commit.inc\" -P " MPSD_TEST_SOURCE_DIR
                  "/server/build_commit.cmake"),
              0);
    return base::ReadFile(folder_ / "commit.inc").value_or("");
  }
  void MakeCheckout() const {
    Git("init -q .");
    std::ofstream(folder_ / "file") << "one";
    std::ofstream(folder_ / ".gitignore") << "output\ncommit.inc\n";
    Git("add . && git -c user.name=a -c user.email=a@b commit -qm one");
  }

  const fs::path folder_ = FreshFolder("build_commit");
  bool missing_ = false;
};

TEST_F(BuildCommitTest, NamesTheCommitAndWhetherFilesDiffer) {
  MakeCheckout();
  const std::string commit = Commit();
  EXPECT_THAT(commit, testing::ContainsRegex("= \"[0-9a-f]{12}\";"));
  std::ofstream(folder_ / "file") << "two";
  EXPECT_THAT(Commit(), testing::ContainsRegex("= \"[0-9a-f]{12}-dirty\";"));
  Git("commit -qam two");
  EXPECT_THAT(Commit(), testing::ContainsRegex("= \"[0-9a-f]{12}\";"));
  EXPECT_NE(Commit(), commit);
}

// Sources that lie in the checkout of something else.
TEST_F(BuildCommitTest, AFolderInAnothersCheckoutHasNoCommit) {
  MakeCheckout();
  fs::create_directory(folder_ / "inner");
  EXPECT_THAT(Commit("inner"), HasSubstr("\"unknown\""));
}

}  // namespace
}  // namespace mpsd
