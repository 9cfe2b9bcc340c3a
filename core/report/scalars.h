// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_SCALARS_H_
#define MPSD_CORE_REPORT_SCALARS_H_

#include "core/report/report.h"
#include "core/report/event.h"

namespace mpsd::tensorboard {

// A report's numbers as curves, named as Transformers' Trainer names its own:
// "train/loss", "eval/loss", "eval/accuracy"; in addition "memory/…". Absent
// values have no curve.
Scalars ScalarsOf(const report::Progress& progress);
Scalars ScalarsOf(const report::Evaluated& evaluated);

}  // namespace mpsd::tensorboard

#endif  // MPSD_CORE_REPORT_SCALARS_H_
