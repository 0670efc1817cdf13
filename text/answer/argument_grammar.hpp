// SPDX-License-Identifier: Apache-2.0
// The arguments of a call that are no JSON object but named one by one (tags, Python's keywords), as a
// grammar: values as CallArguments reads them, each by its schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/answer_format.hpp"
#include "text/answer/marker_grammar.hpp"
#include "text/answer/tool_schemas.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/schema_document.hpp"

namespace troupe {

class ArgumentGrammar {
 public:
  // All must outlive this.
  ArgumentGrammar(GrammarBuilder& builder, const Tokenizer& tokenizer, const CallFormat& format,
                  const ToolSchemas& schemas);

  // All between name_end and call_end, white space as well. Each argument at most once, in the order of the
  // properties; the required ones always. parameters: a JSON schema. Whatever no grammar can enforce is left
  // free, and an argument whose name the format can't write is left out, unless is_strict: then throws
  // GrammarError.
  GrammarExpression arguments(const std::string& function, std::string_view parameters, bool is_strict);

 private:
  struct Argument {
    std::string key;
    SchemaPlace place;
    ToolSchemas::Kind kind = ToolSchemas::Kind::kUnknown;  // as CallArguments takes it
    bool is_required = false;
  };

  std::vector<Argument> arguments_of(const std::string& function, const SchemaPlace& root) const;
  GrammarExpression in_order(const std::vector<GrammarExpression>& parts,
                             const std::vector<Argument>& arguments);
  GrammarExpression free_arguments(SchemaDocument& document, const SchemaPlace& place);
  GrammarExpression part_of(const Argument& argument, SchemaDocument& document, bool is_strict);
  GrammarExpression separator();
  GrammarExpression enclosed(GrammarExpression arguments);
  GrammarExpression no_arguments();

  GrammarBuilder& builder_;
  const Tokenizer& tokenizer_;
  const CallFormat& format_;
  const ToolSchemas& schemas_;
  MarkerGrammar markers_;
};

}  // namespace troupe
