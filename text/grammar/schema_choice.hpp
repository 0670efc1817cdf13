// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "text/grammar/schema_document.hpp"

namespace troupe {

// True: no value obeys both schemas, where that is plain to see: by their types, their constants, or
// the constants of a property that both require. False: not known.
// left, right: resolved. comparisons_left: what it takes is subtracted. Throws GrammarError, of `right`,
// where that is too little.
bool are_disjoint(const SchemaDocument& document, const SchemaPlace& left, const SchemaPlace& right,
                  std::size_t& comparisons_left);

}  // namespace troupe
