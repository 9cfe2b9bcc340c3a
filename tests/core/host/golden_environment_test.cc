// SPDX-License-Identifier: Apache-2.0
#include "core/host/golden_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::host {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(GoldenEnvironment, HasWhatMattersAndNothingElse) {
  for (const char* name :
       {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_ENABLE_MPS_FALLBACK",
        "DYLD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "LANG", "LC_ALL", "TZ",
        "XDG_CACHE_HOME", "HF_HOME", "HF_TOKEN"}) {
    EXPECT_TRUE(Matters(name)) << name;
  }
  for (const char* name : {"PATH", "HOME", "AWS_SECRET_ACCESS_KEY", "OMP",
                           "MY_OMP_THREADS", "SSH_AUTH_SOCK", ""}) {
    EXPECT_FALSE(Matters(name)) << name;
  }
}

TEST(GoldenEnvironment, TellsOfASecretThatItIsSetAndNothingMore) {
  const Environment told =
      ThoseThatMatter({{"HF_TOKEN", "hf_abc"},
                       {"HF_ENDPOINT", "https://ann:pw@hub.example"},
                       {"TORCH_HUB_API_KEY", "k"},
                       {"LC_PASSWORD", "p"},
                       {"OMP_NUM_THREADS", "8"},
                       {"GITHUB_TOKEN", "none of ours"}});
  EXPECT_THAT(
      told,
      ElementsAre(Pair("HF_ENDPOINT", "set"), Pair("HF_TOKEN", "set"),
                  Pair("LC_PASSWORD", "set"), Pair("OMP_NUM_THREADS", "8"),
                  Pair("TORCH_HUB_API_KEY", "set")));
}

}  // namespace
}  // namespace mpsd::host
