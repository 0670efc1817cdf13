// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/json_schema.hpp"

#include "text/grammar/schema_compiler.hpp"
#include "text/grammar/schema_document.hpp"

namespace troupe {

GrammarExpression json_schema_expression(GrammarBuilder& builder, std::string_view schema,
                                         const JsonSchemaOptions& options) {
  SchemaDocument document(schema);
  return SchemaCompiler(builder, document, options).compile(document.root());
}

Grammar grammar_of_json_schema(std::string_view schema, const JsonSchemaOptions& options) {
  GrammarBuilder builder;
  const GrammarExpression root = json_schema_expression(builder, schema, options);
  return builder.build(root);
}

Grammar json_object_grammar() {
  GrammarBuilder builder;
  JsonText text(builder);
  const GrammarExpression root = text.any_object();
  return builder.build(root);
}

}  // namespace troupe
