// SPDX-License-Identifier: Apache-2.0
// Facts about the JSON body of any endpoint: what is refused is refused with a sentence
// that is JSON, and a document that is written is read again as the same one.
#pragma once

#include <string_view>

#include "actors/request/api_error.hpp"
#include "http/api/served_models.hpp"
#include "http/limits.hpp"

namespace troupe::fuzz {

inline constexpr Limits kLimits;

// One of each kind: 0 generates, 1 embeds, 2 classifies.
const ServedModels& models();

void check_error(const ApiError& error);
void check_document(std::string_view body);

}  // namespace troupe::fuzz
