// SPDX-License-Identifier: Apache-2.0
// A data set costs its tokens once, read, kept and found again.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "core/data/token_cache.h"
#include "tests/core/data/model_folder.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::data {
namespace {

constexpr double kTimesTheArrays = 1.3;
// What two threads and their tokenizer take besides, of however many tokens.
constexpr int64_t kThreads = 9 << 20;

// A line of /proc/self/status, in bytes.
int64_t StatusBytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != name + ":") continue;
    int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

struct Cost {
  int64_t peak = 0;    // above what there was before
  int64_t arrays = 0;  // of the data set
};

// What `load` costs, in a process of its own.
Cost CostOf(const std::function<TokenDataset()>& load) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM begins anew
    const int64_t before = StatusBytes("VmRSS");
    const TokenDataset dataset = load();
    const Cost cost{StatusBytes("VmHWM") - before, dataset.samples().bytes()};
    _exit(write(fds[1], &cost, sizeof cost) == sizeof cost ? 0 : 1);
  }
  close(fds[1]);
  Cost cost;
  EXPECT_EQ(read(fds[0], &cost, sizeof cost), ssize_t{sizeof cost});
  close(fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return cost;
}

class PeakMemoryTest : public testing::Test {
 protected:
  PeakMemoryTest() {
    WriteRows(small_, 2000);
    WriteRows(large_, 24'000);
    // What the tokenizer keeps of the words it has seen is there before.
    Load(small_, "");
  }
  static void WriteRows(const fs::path& path, int count) {
    std::ofstream file(path);
    for (int i = 0; i < count; ++i) {
      file << "{\"text\": \"";
      for (int k = 0; k < 20 + i % 30; ++k) file << "hello the world dog ";
      file << i % 100 << "\"}\n";
    }
  }
  TokenDataset Load(const fs::path& data, const fs::path& cache) const {
    const std::vector<std::string> files = {data.string()};
    return *LoadCachedTokens(
        files, kOptions, ModelFolder("bpe"), cache,
        [&] {
          return LoadTokenDataset(files, kOptions, *tokenizer_, nullptr,
                                  nullptr);
        },
        [](const std::string& text) { ADD_FAILURE() << text; });
  }
  void Expect(const char* what, const fs::path& cache) const {
    const Cost cost = CostOf([&] { return Load(large_, cache); });
    EXPECT_GT(cost.arrays, 10 << 20);
    EXPECT_LE(cost.peak - kThreads, kTimesTheArrays * cost.arrays)
        << what << ": " << cost.peak / 1024 << " KiB for arrays of "
        << cost.arrays / 1024;
    RecordProperty(what, std::to_string(1.0 * cost.peak / cost.arrays));
  }

  static constexpr TokenizeOptions kOptions = {.max_length = 4096,
                                               .threads = 2};
  const fs::path folder_ = FreshFolder("peak");
  const fs::path small_ = folder_ / "small.jsonl";
  const fs::path large_ = folder_ / "large.jsonl";
  const std::unique_ptr<text::Tokenizer> tokenizer_ = LoadTokenizer();
};

TEST_F(PeakMemoryTest, ReadKeptAndFoundADataSetCostsItsTokensOnce) {
  Expect("without a cache", "");
  const fs::path cache = FreshFolder("peak_cache");
  Expect("kept", cache);
  ASSERT_FALSE(fs::is_empty(cache));
  Expect("found", cache);
}

}  // namespace
}  // namespace mpsd::data
#endif
