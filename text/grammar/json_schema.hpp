// SPDX-License-Identifier: Apache-2.0
// JSON schemas as grammars: every text of the grammar is JSON that obeys the schema. A keyword that a
// grammar can't enforce is refused by name, never ignored.
#pragma once

#include <string_view>

#include "text/grammar/grammar.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/json_text.hpp"

namespace troupe {

struct JsonSchemaOptions {
  // Objects whose schema has properties and doesn't say may have others behind these.
  bool has_additional_properties = false;
  JsonSpelling spelling = {};
};

// Properties come in the schema's order. Throws GrammarError naming the place in the schema, as a JSON
// pointer, and the keyword.
Grammar grammar_of_json_schema(std::string_view schema, const JsonSchemaOptions& options = {});
// The same within a larger grammar.
GrammarExpression json_schema_expression(GrammarBuilder& builder, std::string_view schema,
                                         const JsonSchemaOptions& options = {});

// Any JSON object.
Grammar json_object_grammar();

}  // namespace troupe
