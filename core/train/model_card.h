// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/train/stages.h"

namespace mpsd::train {

// The model card (core/full/model_card.h) of a complete run: data by hash and
// rows, recipe, metrics, what the model said before and after. Equal runs have
// equal cards.
std::string ModelCardOf(const Prepared& run, const RunResult& result);

}  // namespace mpsd::train
