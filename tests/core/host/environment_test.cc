// SPDX-License-Identifier: Apache-2.0
#include "core/host/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace mpsd::host {
namespace {

TEST(WorkerEnvironment, SetsWhatASharedMacNeeds) {
  const Environment environment = WorkerEnvironment({{"HOME", "/home/u"}});
  EXPECT_EQ(environment, (Environment{
                             {"AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "1"},
                             {"HOME", "/home/u"},
                             {"OMP_WAIT_POLICY", "PASSIVE"},
                             {"PYTORCH_ENABLE_MPS_FALLBACK", "0"},
                             {"PYTORCH_MPS_FAST_MATH", "0"},
                             {"PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.95"},
                             {"PYTORCH_MPS_LOW_WATERMARK_RATIO", "0.75"},
                         }));
}

TEST(WorkerEnvironment, TheUsersWordStands) {
  const Environment environment =
      WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "1"},
                         {"PYTORCH_MPS_FAST_MATH", "1"},
                         {"OMP_WAIT_POLICY", "ACTIVE"},
                         {"AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "0"}});
  EXPECT_EQ(environment.at("PYTORCH_ENABLE_MPS_FALLBACK"), "1");
  EXPECT_EQ(environment.at("PYTORCH_MPS_FAST_MATH"), "1");
  EXPECT_EQ(environment.at("OMP_WAIT_POLICY"), "ACTIVE");
  EXPECT_EQ(environment.at("AGX_RELAX_CDM_CTXSTORE_TIMEOUT"), "0");
}

TEST(WorkerEnvironment, AJobMayOptInToTheCpu) {
  EXPECT_EQ(WorkerEnvironment({}, true).at("PYTORCH_ENABLE_MPS_FALLBACK"), "1");
  EXPECT_EQ(WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "0"}}, true)
                .at("PYTORCH_ENABLE_MPS_FALLBACK"),
            "1");
}

// torch calls std::stoi on it while it loads.
TEST(WorkerEnvironment, AFallbackThatIsNoNumberIsReplaced) {
  EXPECT_EQ(WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "yes"}})
                .at("PYTORCH_ENABLE_MPS_FALLBACK"),
            "0");
}

// torch throws "invalid low watermark ratio" otherwise.
TEST(WorkerEnvironment, TheLowMarkStaysBelowTheHighOne) {
  const auto low = [](const char* high) {
    return WorkerEnvironment({{"PYTORCH_MPS_HIGH_WATERMARK_RATIO", high}})
        .at("PYTORCH_MPS_LOW_WATERMARK_RATIO");
  };
  EXPECT_EQ(low("0.5"), "0.5");
  EXPECT_EQ(low("0.8"), "0.75");
  EXPECT_EQ(low("0"), "0.75") << "no limit";
}

TEST(WorkerEnvironment, IsDoneWhenItIsDone) {
  const Environment once = WorkerEnvironment({}, true);
  EXPECT_EQ(WorkerEnvironment(once, true), once);
}

TEST(WithoutSecrets, KeepsWhatAWorkerNeedsAndNothingElse) {
  const Environment needed = {{"PATH", "/bin"},
                              {"HOME", "/home/u"},
                              {"LANG", "C"},
                              {"LC_ALL", "C.UTF-8"},
                              {"TZ", "UTC"},
                              {"HF_HOME", "/srv/hf"},
                              {"HF_HUB_OFFLINE", "1"},
                              {"XDG_CACHE_HOME", "/c"},
                              {"LD_LIBRARY_PATH", "/cuda"},
                              {"OMP_NUM_THREADS", "4"},
                              {"PYTORCH_CUDA_ALLOC_CONF", "x"},
                              {"CUDA_VISIBLE_DEVICES", "0"},
                              {"ASAN_OPTIONS", "x"}};
  Environment all = needed;
  for (const char* secret : {"HF_TOKEN",
                             "HUGGING_FACE_HUB_TOKEN",
                             "HUGGINGFACE_TOKEN",
                             "AWS_SECRET_ACCESS_KEY",
                             "AWS_ACCESS_KEY_ID",
                             "AWS_PROFILE",
                             "GOOGLE_APPLICATION_CREDENTIALS",
                             "AZURE_CLIENT_SECRET",
                             "GITHUB_TOKEN",
                             "GH_TOKEN",
                             "OPENAI_API_KEY",
                             "WANDB_API_KEY",
                             "MLFLOW_TRACKING_TOKEN",
                             "NOTIFY_SOCKET",
                             "SSH_AUTH_SOCK",
                             "SSH_CONNECTION",
                             "GPG_AGENT_INFO",
                             "DBUS_SESSION_BUS_ADDRESS",
                             "XDG_RUNTIME_DIR",
                             "DOCKER_HOST",
                             "KUBECONFIG",
                             "PGPASSWORD",
                             "DATABASE_URL",
                             "http_proxy",
                             "HTTPS_PROXY",
                             "CREDENTIALS_DIRECTORY",
                             "INVOCATION_ID",
                             "MPSD_TOKEN",
                             "MPSD_STATE_DIR",
                             "MPSD_SERVER",
                             "LD_PRELOAD",
                             "LD_AUDIT",
                             "DYLD_INSERT_LIBRARIES",
                             "SUDO_COMMAND",
                             "MAIL",
                             "OLDPWD",
                             "TORCH_HUB_TOKEN",
                             "CUDA_API_KEY",
                             "PATHS",
                             "lc_all",
                             "",
                             "SOMETHING_NEW"}) {
    EXPECT_FALSE(IsKeptForWorker(secret)) << secret;
    all[secret] = "canary";
  }
  EXPECT_EQ(WithoutSecrets(all), needed);
}

TEST(CurrentEnvironment, IsThatOfThisProcess) {
  setenv("MPSD_TEST_VARIABLE", "a=b", 1);
  EXPECT_EQ(CurrentEnvironment().at("MPSD_TEST_VARIABLE"), "a=b");
  unsetenv("MPSD_TEST_VARIABLE");
  EXPECT_FALSE(CurrentEnvironment().contains("MPSD_TEST_VARIABLE"));
}

}  // namespace
}  // namespace mpsd::host
