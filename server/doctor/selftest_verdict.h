// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_SELFTEST_VERDICT_H_
#define MPSD_SERVER_DOCTOR_SELFTEST_VERDICT_H_

#include <filesystem>

#include "server/doctor/facts.h"

namespace mpsd::doctor {

// The verdict that the worker wrote (core/selftest/verdict.h, which needs
// torch) and when: kPassed or kFailed; kNotTold where there is no file that
// makes sense.
Selftest ReadSelftest(const std::filesystem::path& path);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_SELFTEST_VERDICT_H_
