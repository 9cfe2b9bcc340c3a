// SPDX-License-Identifier: Apache-2.0
#include "core/plan/epoch.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/check.h"

namespace mpsd::plan {
namespace {

void Add(const data::Batch& batch, Epoch& epoch) {
  epoch.tokens += batch.tokens;
  epoch.padded_tokens += batch.rows * batch.length;
  ++epoch.batches[{batch.rows, batch.length}];
}

std::string Patch(const char* strategy, bool language, bool packing,
                  bool padding_free) {
  nlohmann::json training = {{"train_sampling_strategy", strategy}};
  if (language) {
    training["packing"] = packing;
    training["padding_free"] = padding_free;
  }
  return nlohmann::json{{"training", std::move(training)}}.dump();
}

// The table's name for a job's own options.
const char* NameOf(const data::LoaderOptions& options) {
  if (options.packing) return "packing";
  if (options.padding_free) return "padding_free";
  if (options.group_by_length) return "group_by_length";
  return options.shuffle ? "random" : "sequential";
}

}  // namespace

double Epoch::padding_share() const {
  if (padded_tokens == 0) return 0;
  return 1 - static_cast<double>(tokens) / static_cast<double>(padded_tokens);
}

Epoch CountEpoch(CountedRows rows, const data::LoaderOptions& options) {
  rows.set_max_length(options.max_length);
  data::Loader loader(rows, options);
  Epoch epoch;
  epoch.steps = loader.steps_per_epoch();
  for (int64_t step = 0; step < epoch.steps; ++step) {
    const auto batches = loader.NextStep();
    base::Check(batches.ok(), "counting rows cannot fail");
    for (const data::Batch& batch : *batches) Add(batch, epoch);
  }
  return epoch;
}

Epoch CountEvaluation(const data::BatchShapes& shapes, CountedRows rows,
                      const CountedRows& train, int64_t micro_batch_rows,
                      int64_t max_length) {
  rows.set_max_length(max_length);
  const data::EvalLoader loader =
      shapes.EvalBatches(rows, train, micro_batch_rows);
  Epoch epoch;
  for (int64_t i = 0; i < loader.count(); ++i) {
    const auto batch = loader.Load(i);
    base::Check(batch.ok(), "counting rows cannot fail");
    Add(*batch, epoch);
  }
  return epoch;
}

std::vector<Sampling> Samplings(const spec::TrainSpec& spec,
                                const data::LoaderOptions& own) {
  const bool language = spec.task == spec::Task::kCausalLm;
  std::vector<Sampling> all;
  const auto add = [&](const char* name, const char* strategy, bool packing,
                       bool padding_free) {
    Sampling sampling{.name = name,
                      .chosen = name == std::string(NameOf(own)),
                      .patch = Patch(strategy, language, packing, padding_free),
                      .options = own};
    if (!sampling.chosen) {
      sampling.options.shuffle = strategy != std::string("sequential");
      sampling.options.group_by_length =
          strategy == std::string("group_by_length");
      sampling.options.packing = packing;
      sampling.options.padding_free = padding_free;
    }
    all.push_back(std::move(sampling));
  };
  const std::string& strategy = spec.training.train_sampling_strategy;
  // Images have one size: no order reduces padding.
  const bool images = spec.task == spec::Task::kImageCls;
  if (!images || strategy == "random") add("random", "random", false, false);
  if (!images || strategy == "sequential") {
    add("sequential", "sequential", false, false);
  }
  if (!images || strategy == "group_by_length") {
    add("group_by_length", "group_by_length", false, false);
  }
  if (language) {
    add("padding_free", "random", false, true);
    add("packing", "random", true, false);
  }
  return all;
}

}  // namespace mpsd::plan
