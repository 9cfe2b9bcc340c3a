// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "absl/time/clock.h"
#include "core/host/device_error.h"
#include "core/host/environment.h"
#include "core/host/footprint_peak.h"
#include "core/host/footprint_watch.h"
#include "core/host/golden_environment.h"
#include "core/host/platform.h"
#include "core/host/processes.h"

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

TEST(WorkerEnvironment, AJobMayOptInToTheCpuAndNoNumberIsReplaced) {
  EXPECT_EQ(WorkerEnvironment({}, true).at("PYTORCH_ENABLE_MPS_FALLBACK"), "1");
  EXPECT_EQ(WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "0"}}, true)
                .at("PYTORCH_ENABLE_MPS_FALLBACK"),
            "1");
  // torch calls std::stoi on it while it loads.
  EXPECT_EQ(WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "yes"}})
                .at("PYTORCH_ENABLE_MPS_FALLBACK"),
            "0");
  // torch throws "invalid low watermark ratio" otherwise.
  const auto low = [](const char* high) {
    return WorkerEnvironment({{"PYTORCH_MPS_HIGH_WATERMARK_RATIO", high}})
        .at("PYTORCH_MPS_LOW_WATERMARK_RATIO");
  };
  EXPECT_EQ(low("0.5"), "0.5");
  EXPECT_EQ(low("0.8"), "0.75");
  EXPECT_EQ(low("0"), "0.75") << "no limit";
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

using testing::ElementsAre;
using testing::Pair;

TEST(GoldenEnvironment, HasWhatMattersAndOfASecretThatItIsSet) {
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

constexpr size_t kBlock = 64 << 20;

TEST(FootprintPeak, RemembersWhatIsGone) {
  FootprintPeak peak;
  const int64_t before = peak.bytes();
  ASSERT_GT(before, 0);
  // The block is there for longer and longer, up to a minute, until the peak's
  // own thread has looked: a busy machine may hold that thread up.
  const int64_t much = before + static_cast<int64_t>(kBlock) / 2;
  absl::Duration held = absl::Milliseconds(50);
  for (; peak.bytes() <= much && held < absl::Minutes(1); held *= 2) {
    const auto block = std::make_unique<char[]>(kBlock);
    std::memset(block.get(), 1, kBlock);
    absl::SleepFor(held);
  }
  EXPECT_GT(peak.bytes(), much);
  peak.Reset();
  EXPECT_LT(peak.bytes(), before + static_cast<int64_t>(kBlock) / 2);
}

TEST(FootprintWatch, TellsThePeakWhileItLives) {
  EXPECT_EQ(PeakFootprintBytes(), std::nullopt);
  {
    const FootprintWatch watch;
    const auto before = PeakFootprintBytes();
    ASSERT_TRUE(before);
    // The block is there for longer and longer, up to a minute, until the
    // watch's thread has looked: a busy machine may hold that thread up.
    const int64_t much = *before + static_cast<int64_t>(kBlock) / 2;
    absl::Duration held = absl::Milliseconds(300);
    for (; *PeakFootprintBytes() <= much && held < absl::Minutes(1);
         held *= 2) {
      const auto block = std::make_unique<char[]>(kBlock);
      std::memset(block.get(), 1, kBlock);
      absl::SleepFor(held);
    }
    EXPECT_GT(*PeakFootprintBytes(), much);
  }
  EXPECT_EQ(PeakFootprintBytes(), std::nullopt);
}

TEST(FootprintWatchDeathTest, OneAtATime) {
  const FootprintWatch watch;
  EXPECT_DEATH(FootprintWatch(), "one footprint watch");
}

TEST(ProcessLimits, AreTheSoftOnesOfThisProcess) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_EQ(ReadProcessLimits().descriptors, 200);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(ReadProcessLimits().descriptors, 200);
}

using Kind = DeviceError::Kind;

// A text as torch or macOS words it, and what it means: one at least for each
// row of the table.
struct Case {
  const char* text;
  Kind kind;
  const char* advice;  // a part of it
};
constexpr Case kCases[] = {
    {"MPS backend out of memory (MPS allocated: 5.20 GB, other allocations: "
     "1.10 GB, max allowed: 6.00 GB). Tried to allocate 1.00 GB on private "
     "pool.",
     Kind::kOutOfMemory, "gradient_checkpointing"},
    {"CUDA error: out of memory", Kind::kOutOfMemory, "max_length"},
    {"CUDA out of memory. Tried to allocate 2.00 GiB", Kind::kOutOfMemory,
     "max_length"},
    {"[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate "
     "memory: you tried to allocate 99 bytes.",
     Kind::kOutOfMemory, "max_length"},
    {"Error: command buffer exited with error status.\n\tThe Metal Performance "
     "Shaders operations encoded on it may not have completed.\n\tError: "
     "(null)\n\tInsufficient Memory "
     "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
     Kind::kOutOfMemory, "Metal dropped the work"},
    {"Error: command buffer exited with error status.\n\tInsufficient Memory",
     Kind::kOutOfMemory, "Metal dropped the work"},
    {"Invalid buffer size: 12.00 GB", Kind::kOutOfMemory, "2^31"},
    {"MPSGaph does not support tensor dims larger than INT_MAX",
     Kind::kOutOfMemory, "2^31"},
    {"MPSGraph does not support tensor dims larger than INT_MAX",
     Kind::kOutOfMemory, "2^31"},
    {"/AppleInternal/Library/BuildRoots/x/MPSNDArray.mm:850: failed assertion "
     "`[MPSNDArray initWithDevice:descriptor:isTextureBacked:] Error: total "
     "bytes of NDArray > 2**32'",
     Kind::kOutOfMemory, "4 GiB"},
    {"Execution of the command buffer was aborted due to an error during "
     "execution. Impacting Interactivity "
     "(0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)",
     Kind::kTransient, "display"},
    {"aborted due to an error: Impacting Interactivity", Kind::kTransient,
     "display"},
    {"Caused GPU Timeout Error "
     "(00000002:kIOGPUCommandBufferCallbackErrorTimeout)",
     Kind::kTransient, "too long"},
    {"Caused GPU Timeout Error", Kind::kTransient, "too long"},
    {"Caused GPU Address Fault Error "
     "(0000000b:kIOGPUCommandBufferCallbackErrorPageFault)",
     Kind::kTransient, "reset"},
    {"Ignored (for causing prior/excessive GPU errors) "
     "(00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)",
     Kind::kTransient, "reset"},
    {"Error: command buffer exited with error status.", Kind::kTransient,
     "last checkpoint"},
    {"the device dropped work without an error (its canary was not written): "
     "out of memory or a GPU reset",
     Kind::kTransient, "last checkpoint"},
    {"The operator 'aten::linalg_eig' is not currently implemented for the MPS "
     "device. If you want this op to be considered for addition please comment "
     "on the tracker",
     Kind::kUnsupported, "allow_cpu_fallback"},
    {"index out of range in self", Kind::kBadIndex, "vocab_size"},
    {"[enforce fail] INDICES element is out of DATA bounds, id=9 axis_dim=8",
     Kind::kBadIndex, "vocab_size"},
    {"index 49160 is out of bounds for dimension 0 with size 49152",
     Kind::kBadIndex, "vocab_size"},
    {"cross_entropy: target 9 is out of bounds for 8 classes", Kind::kBadIndex,
     "beyond its table"},
    {"IndexKernelUtils.cu:16: vectorized_gather_kernel: block: [0,0,0], "
     "Assertion `ind >=0 && ind < ind_dim_size && \"vectorized gather kernel "
     "index out of bounds\"` failed.",
     Kind::kBadIndex, "vocab_size"},
    {"Indexing.cu:1553: indexSelectSmallIndex: block: [1,0,0], Assertion "
     "`srcIndex < srcSelectDimSize` failed.",
     Kind::kBadIndex, "vocab_size"},
    {"CUDA error: device-side assert triggered\nCUDA kernel errors might be "
     "asynchronously reported at some other API call",
     Kind::kBadIndex, "vocab_size"},
    {"loc(\"mps_multiply\"): error: 'mps.multiply' op requires the same "
     "element type for all operands and results",
     Kind::kTransient, "assertion"},
    {"MPSGraph.mm:1: failed assertion `bad axis'", Kind::kTransient,
     "assertion"},
    {"/x/MPSCore/Types/MPSNDArray.mm:99: failed assertion `[MPSTemporaryND"
     "Array] buffer is not large enough'",
     Kind::kTransient, "assertion"},
    {"MPSNDArray.mm: error: the shape is wrong", Kind::kTransient, "assertion"},
    {"LLVM ERROR: Failed to infer result type(s). mps.matmul", Kind::kTransient,
     "assertion"},
    {"Compiler encountered XPC_ERROR_CONNECTION_INVALID (is the OS shutting "
     "down?) MTLCompilerService",
     Kind::kTransient, "launchd"},
    {"the host is out of memory", Kind::kOutOfMemory, "max_length"},
};

TEST(FindDeviceError, KnowsEveryTextAndNoOther) {
  for (const Case& c : kCases) {
    const auto found = FindDeviceError(c.text);
    ASSERT_TRUE(found.has_value()) << c.text;
    EXPECT_EQ(found->kind, c.kind) << c.text;
    EXPECT_NE(found->advice.find(c.advice), std::string::npos) << c.text << "\n"
                                                               << found->advice;
  }
  std::set<const DeviceErrorRow*> met;
  for (const Case& c : kCases) {
    const std::string_view text = c.text;
    for (const DeviceErrorRow& row : DeviceErrorTable()) {
      bool fits = true;
      for (std::string_view sign : row.signs) {
        fits = fits && text.find(sign) != std::string_view::npos;
      }
      if (!fits) continue;
      met.insert(&row);
      break;  // the first is the one that counts
    }
  }
  for (const DeviceErrorRow& row : DeviceErrorTable()) {
    EXPECT_TRUE(met.contains(&row)) << row.signs[0];
  }
  for (const char* text :
       {"", "step 8/8  epoch 1.00  loss 0.5", "train.jsonl:3: no field",
        "jinja: list index out of range",
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"}) {
    EXPECT_FALSE(FindDeviceError(text).has_value()) << text;
  }
}

}  // namespace

}  // namespace mpsd::host
