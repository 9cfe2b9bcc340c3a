// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

class SweepTest : public ClientTest {};

TEST_F(SweepTest, SaysWhatItTakes) {
  const Result help = RunVerb({"sweep", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* text :
       {"--batch", "--grid", "--random", "list", "show", "cancel"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
  const std::string job = Write("job.json", "{}");
  const Result nothing = RunVerb({"sweep", job});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("--batch, --grid or --random"));
  EXPECT_TRUE(data().submitted.empty());
  EXPECT_THAT(RunVerb({"sweep", job, "--batch", "--grid", "lora.r=8,16"}).err,
              HasSubstr("not both"));
  EXPECT_THAT(RunVerb({"sweep"}).err, HasSubstr("expected a job.json"));
}

TEST_F(SweepTest, PlacesForItsFilesAreLookedAtFirst) {
  const std::string job =
      Write("job.json", R"({"model": "m", "dataset": {"train": "/t.jsonl"}})");
  const std::string nowhere = (folder_ / "none/x").string();
  for (const char* kind : {"--batch", "--grid"}) {
    for (const char* option : {"--csv", "--svg"}) {
      if (std::string(kind) == "--batch" && std::string(option) == "--svg") {
        continue;
      }
      for (const std::string& place : {nowhere, folder_.string()}) {
        std::vector<std::string> args = {"sweep", job, option, place, kind};
        if (args.back() == "--grid") args.push_back("lora.r=1");
        const Result refused = RunVerb(args);
        EXPECT_EQ(refused.code, 2);
        EXPECT_THAT(refused.err,
                    HasSubstr(absl::StrCat(option, ": ", folder_.string())));
      }
    }
  }
  EXPECT_TRUE(data().submitted.empty());
  EXPECT_TRUE(daemon_->sweeps().created.empty());
}

}  // namespace
}  // namespace mpsd::client
