// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_FAKE_STUDIES_H_
#define MPSD_TESTS_FAKES_FAKE_STUDIES_H_

#include <nlohmann/json.hpp>

#include "core/wire/messages.h"

namespace mpsd::testing_support {

// What a study of `kind` might have found: a StudyResult's JSON without verdict
// and findings.
nlohmann::json FakeStudy(wire::JobKind kind);

}  // namespace mpsd::testing_support

#endif  // MPSD_TESTS_FAKES_FAKE_STUDIES_H_
