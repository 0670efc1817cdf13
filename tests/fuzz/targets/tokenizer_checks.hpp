// SPDX-License-Identifier: Apache-2.0
// Facts about a tokenizer that a stranger's file made: it encodes and decodes any text
// within its bounds, and a stream of tokens is the text of the whole.
#pragma once

#include "text/tokenizer/tokenizer.hpp"

namespace troupe::fuzz {

void check_tokenizer(const Tokenizer& tokenizer);

}  // namespace troupe::fuzz
