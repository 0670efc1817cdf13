// SPDX-License-Identifier: Apache-2.0
#include "engine/sequence_output.hpp"

namespace troupe {

bool ends_sequence(const SequenceOutput& output) {
  if (const auto* token = std::get_if<NewToken>(&output)) return token->end != SequenceEnd::kNotYet;
  return std::holds_alternative<Encoded>(output) || std::holds_alternative<SequenceFailed>(output);
}

}  // namespace troupe
