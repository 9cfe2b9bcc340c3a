// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_MODEL_FINDER_H_
#define MPSD_SERVER_JOBS_MODEL_FINDER_H_

#include <memory>
#include <optional>
#include <string>

namespace mpsd::jobs {

// Finds the models that people pushed to this daemon; implemented by
// server/models. Thread-safe.
class ModelFinder {
 public:
  struct Found {
    std::string folder;  // absolute
    // While it lives the folder stays.
    std::shared_ptr<const void> lease;
  };

  virtual ~ModelFinder() = default;
  // nullopt where no model has this name.
  virtual std::optional<Found> Find(const std::string& name) = 0;
  // A name that differs from `name` by case alone, for people; "" where there
  // is none.
  virtual std::string Alike(const std::string& name) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_MODEL_FINDER_H_
