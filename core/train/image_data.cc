// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/image_list.h"
#include "core/data/image_set.h"
#include "core/data/processor.h"
#include "core/train/class_data.h"

namespace mpsd::train {
namespace {

using Paths = std::vector<std::string>;
using SourcePtr = std::unique_ptr<data::Source>;

class ImageLoader {
 public:
  ImageLoader(const spec::TrainSpec& spec, const spec::ModelConfig& config,
              image::Processor processor, Observer& observer)
      : spec_(spec),
        config_(config),
        processor_(std::move(processor)),
        observer_(observer) {}

  absl::StatusOr<ClassData> Load() {
    const spec::DatasetSpec& d = spec_.dataset;
    WarnOfIdleColumns();
    result_.files["preprocessor_config.json"] =
        image::ToJson(processor_.config());
    ASSIGN_OR_RETURN(
        auto train,
        List(d.train, true,
             d.validation_split > 0 ? std::nullopt : d.max_train_samples,
             "training images"));
    RETURN_IF_ERROR(Decide(train));
    absl::Status s =
        Add(std::move(train), &result_.class_labels, result_.sets.train);
    if (s.ok() && !d.eval.empty()) {
      ASSIGN_OR_RETURN(auto eval, List(d.eval, true, d.max_eval_samples,
                                       "evaluation images"));
      s = Add(std::move(eval), &result_.class_labels, result_.sets.eval);
    }
    if (s.ok() && !d.predict.empty()) {
      ASSIGN_OR_RETURN(
          auto predict,
          List(d.predict, false, d.max_predict_samples, "images to predict"));
      s = Add(std::move(predict), nullptr, result_.sets.predict);
    }
    if (!s.ok()) return s;
    return std::move(result_);
  }

 private:
  // Folders of images have no columns to name.
  void WarnOfIdleColumns() {
    const spec::DatasetSpec& d = spec_.dataset;
    for (const Paths* paths : {&d.train, &d.eval, &d.predict}) {
      if (std::any_of(paths->begin(), paths->end(), image::HasRows)) return;
    }
    for (const auto& [field, column] : {std::pair{"image", &d.image_column},
                                        std::pair{"label", &d.label_column}}) {
      if (column->empty()) continue;
      observer_.OnWarning(absl::StrCat(
          "dataset.", field,
          "_column has no effect: image folders and .safetensors files have no "
          "columns"));
    }
  }

  // The limit takes one image of each class in turn, so it is applied here. A
  // split comes before the limit: then SplitAndLimit applies both.
  absl::StatusOr<image::ImageList> List(const Paths& paths, bool labels_needed,
                                        const std::optional<int64_t>& limit,
                                        const char* what) {
    observer_.OnStage(absl::StrCat("reading ", what), 0);
    image::ListOptions options;
    options.image_column = spec_.dataset.image_column;
    options.label_column = spec_.dataset.label_column;
    options.labels_needed = labels_needed;
    options.max_samples = limit;
    auto list = image::ListImages(paths, options);
    if (list.ok()) {
      observer_.OnStage(absl::StrCat(list->entries.size(), " images"), 1);
    }
    return list;
  }

  absl::Status Decide(const image::ImageList& list) {
    std::vector<std::string> warnings;
    ASSIGN_OR_RETURN(
        auto class_labels,
        data::DecideClassLabels(image::LabelValues(list), image::PlacesOf(list),
                                spec_.classification, nullptr, config_.head,
                                &warnings));
    observer_.OnWarnings(warnings);
    result_.class_labels = std::move(class_labels);
    return absl::OkStatus();
  }

  absl::Status Add(image::ImageList list, const data::ClassLabels* class_labels,
                   SourcePtr& source) {
    image::ImageSetOptions options;
    options.augmentation = spec_.augmentation;
    ASSIGN_OR_RETURN(auto set,
                     image::ImageSet::Make(std::move(list), class_labels,
                                           processor_, options));
    source = std::move(set);
    return absl::OkStatus();
  }

  const spec::TrainSpec& spec_;
  const spec::ModelConfig& config_;
  const image::Processor processor_;
  Observer& observer_;
  ClassData result_;
};

}  // namespace

absl::StatusOr<ClassData> LoadImages(const spec::TrainSpec& spec,
                                     const std::string& model_folder,
                                     const spec::ModelConfig& config,
                                     Observer& observer) {
  ASSIGN_OR_RETURN(auto processor,
                   image::Processor::Read(model_folder, config.vision));
  return ImageLoader(spec, config, std::move(processor), observer).Load();
}

}  // namespace mpsd::train
