// SPDX-License-Identifier: Apache-2.0
// What reading a data set costs: time, and memory in addition to the arrays it
// ends in.
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "CLI/CLI.hpp"
#include "core/data/token_cache.h"

namespace {

using namespace mpsd;

// A line of /proc/self/status, in bytes; 0 where there is no such file.
int64_t StatusBytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == name + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times the reading of a data set for language modelling.");
  std::string model, cache;
  std::vector<std::string> files;
  data::TokenizeOptions options{.max_length = 1024};
  bool assistant_only = false;
  app.add_option("model", model, "folder")->required();
  app.add_option("files", files, "JSON Lines")->required();
  app.add_option("--cache", cache, "folder that keeps tokens [none]");
  app.add_option("--threads", options.threads, "0: as many as there are cores");
  app.add_option("--max-length", options.max_length)->capture_default_str();
  app.add_flag("--assistant-only-loss", assistant_only);
  CLI11_PARSE(app, argc, argv);
  if (assistant_only) options.assistant_only_loss = true;
  auto tokenizer = text::Tokenizer::FromFolder(model);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  std::unique_ptr<text::ChatTemplate> chat;
  if (auto found = text::ChatTemplate::FromFolder(model); found.ok()) {
    chat = *std::move(found);
  }
  std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM begins anew
  const int64_t before = StatusBytes("VmRSS");
  const auto start = std::chrono::steady_clock::now();
  const auto dataset = data::LoadCachedTokens(
      files, options, model, cache,
      [&] {
        return data::LoadTokenDataset(files, options, **tokenizer, chat.get(),
                                      nullptr);
      },
      [](const std::string& text) { std::cerr << text << "\n"; });
  if (!dataset.ok()) {
    std::cerr << dataset.status() << "\n";
    return 1;
  }
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  const int64_t peak = StatusBytes("VmHWM") - before;
  const int64_t arrays = dataset->samples().bytes();
  std::cout << nlohmann::json{{"rows", dataset->size()},
                              {"tokens", dataset->stats().tokens},
                              {"seconds", seconds.count()},
                              {"arrays_bytes", arrays},
                              {"peak_bytes", peak},
                              {"times_the_arrays", 1.0 * peak / arrays}}
            << "\n";
}
