// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SHARE_OPTIONS_H_
#define MPSD_SERVER_SHARE_OPTIONS_H_

#include "server/config.h"

namespace CLI {
class App;
}

namespace mpsd {

// The options that divide the device among its users: fair share and
// preemption.
class ShareOptions {
 public:
  ShareOptions();

  // Declares the options; `app` fills them in, so the object must outlive the
  // parsing and must not move until then.
  void Declare(CLI::App& app);
  // Sets their fields of `config`.
  void Finish(Config& config) const;

 private:
  double half_life_hours_, margin_seconds_, least_run_seconds_;
  bool preempt_ = false;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_SHARE_OPTIONS_H_
