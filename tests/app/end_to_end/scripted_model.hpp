// SPDX-License-Identifier: Apache-2.0
// A model directory of a Llama whose answers are known: each token has one successor,
// so what the template writes last decides what the model says.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_directory.hpp"

namespace troupe::test {

struct ScriptedPart {
  std::string text;
  bool is_special = false;  // one special token
};

// Said behind the special token `cue`, up to the end token.
struct CuedAnswer {
  std::string cue;
  std::vector<ScriptedPart> parts;
};

// The cues are tokens of the vocabulary; a token of plain text has two bytes or more.
void write_scripted_model(const TemporaryDirectory& directory, const std::string& chat_template,
                          const std::vector<CuedAnswer>& answers);

}  // namespace troupe::test
