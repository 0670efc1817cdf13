// SPDX-License-Identifier: Apache-2.0
// The markers of an answer's format as expressions: a marker that the tokenizer has as a special token
// is that token, anything else its bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/call_spelling.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/marked_text.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

class MarkerGrammar {
 public:
  // Both must outlive this.
  MarkerGrammar(GrammarBuilder& builder, const Tokenizer& tokenizer)
      : builder_(builder), tokenizer_(tokenizer) {}

  GrammarExpression exact(std::string_view marker);
  // White space as stands between the parts of a call: a line's end, an indent.
  GrammarExpression space();
  // This of a spelling that is known; else any.
  GrammarExpression space(const std::optional<CallSpelling>& spelling, const std::string CallSpelling::*part);
  // Any text up to the first `marker`, and the marker: a rule of each three, however often they are asked
  // for. line: what must stand in front of the marker, and is no part of it.
  GrammarExpression text_until(std::string_view marker, const CharacterSet& not_first = {},
                               std::string_view line = {});
  // The same of text that is free (GrammarBuilder::declare_free_text).
  GrammarExpression free_text_until(std::string_view marker);

 private:
  bool has_special(std::string_view marker) const;
  GrammarExpression new_text_until(std::string_view marker, const CharacterSet& not_first,
                                   std::string_view line);

  GrammarBuilder& builder_;
  const Tokenizer& tokenizer_;
  struct Until {
    std::string marker;
    CharacterSet not_first;
    std::string line;
    GrammarExpression text;
  };
  std::vector<Until> untils_;
};

}  // namespace troupe
