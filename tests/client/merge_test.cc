// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class MergeTest : public ClientTest {
 protected:
  // A program that writes its arguments to a file and then does `end`.
  std::string Worker(const std::string& end) {
    const std::string path =
        Write("worker", "#!/bin/sh\necho \"$@\" >" +
                            (folder_ / "said").string() + "\n" + end + "\n");
    chmod(path.c_str(), 0755);
    return path;
  }
};

TEST_F(MergeTest, RunsTheWorkerWithWhatItWasGiven) {
  EXPECT_THAT(
      RunBare({"merge", "adapter", "-o", "out", "--worker", Worker("exit 0")}),
      Prints());
  EXPECT_EQ(Read(folder_ / "said"), "--merge --adapter adapter --out out\n");
  EXPECT_EQ(RunBare({"merge", "a b", "-o", "out", "--model", "org/model",
                     "--dtype", "bfloat16", "--max-shard-size", "2GB",
                     "--worker", Worker("exit 0")})
                .code,
            0);
  EXPECT_EQ(Read(folder_ / "said"),
            "--merge --adapter a b --out out --model org/model --dtype "
            "bfloat16 --max-shard-size 2GB\n");
}

TEST_F(MergeTest, EndsAsTheWorkerDoes) {
  const auto code = [this](const std::string& end) {
    return RunBare({"merge", "a", "-o", "b", "--worker", Worker(end)}).code;
  };
  EXPECT_EQ(code("exit 2"), 2);
  EXPECT_EQ(code("exit 1"), 6);
  EXPECT_EQ(code("kill -9 $$"), 6);
}

TEST_F(MergeTest, WithoutAWorkerItSaysWhereToRun) {
  EXPECT_THAT(RunBare({"merge", "adapter", "-o", "out", "--worker",
                       (folder_ / "nowhere").string()}),
              Fails(2, HasSubstr("run it where mpsd is installed")));
}

TEST_F(MergeTest, RefusesADtypeThatThereIsNot) {
  EXPECT_EQ(RunBare({"merge", "adapter", "-o", "out", "--dtype", "int8"}).code,
            2);
}

}  // namespace
}  // namespace mpsd::client
