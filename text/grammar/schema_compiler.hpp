// SPDX-License-Identifier: Apache-2.0
// Schemas of a document as expressions: one function a type, and those that join or choose schemas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/json_text.hpp"
#include "text/grammar/regex_syntax.hpp"
#include "text/grammar/schema_document.hpp"

namespace troupe {

class SchemaCompiler {
 public:
  // Both must outlive this.
  SchemaCompiler(GrammarBuilder& builder, SchemaDocument& document, const JsonSchemaOptions& options)
      : builder_(builder), document_(document), options_(options), text_(builder, options.spelling) {}

  // A schema of the document as an expression. Throws GrammarError.
  GrammarExpression compile(const SchemaPlace& place);
  // The texts of a schema of strings as they are, without quotation marks, none of which holds `end` or
  // ends within it: one that has a pattern or bounds has no character with which `end` begins.
  // nullopt: any text. Throws GrammarError.
  std::optional<GrammarExpression> compile_plain(const SchemaPlace& place, std::string_view end);

 private:
  struct Count {
    std::uint32_t min = 0;
    std::uint32_t max = kUnboundedCount;
  };

  GrammarExpression schema(const SchemaPlace& place);
  GrammarExpression constrained(const SchemaPlace& place);
  GrammarExpression reference(const SchemaPlace& place);
  GrammarExpression joined(const SchemaPlace& place);
  GrammarExpression chosen(const SchemaPlace& place, const char* keyword);
  void demand_disjoint(const SchemaPlace& place, const SchemaPlace& branches);
  GrammarExpression constants(const SchemaPlace& place);
  std::vector<SchemaJson> values_of(const SchemaPlace& place) const;
  GrammarExpression typed(const SchemaPlace& place, const std::string& type);
  std::vector<std::string> types_of(const SchemaPlace& place) const;

  GrammarExpression object(const SchemaPlace& place);
  GrammarExpression members(const SchemaPlace& place, const std::vector<std::string>& required,
                            std::optional<GrammarExpression> other);
  std::optional<GrammarExpression> other_member(const SchemaPlace& place);
  GrammarExpression array(const SchemaPlace& place);
  GrammarExpression string(const SchemaPlace& place);
  std::optional<RegexNode> pattern_of(const SchemaPlace& place, Count length) const;
  GrammarExpression integer(const SchemaPlace& place);
  GrammarExpression number(const SchemaPlace& place);

  Count count(const SchemaPlace& place, const char* min, const char* max) const;

  GrammarBuilder& builder_;
  SchemaDocument& document_;
  const JsonSchemaOptions options_;
  JsonText text_;
  std::map<std::string, GrammarRule> rules_;  // of schemas that are referred to, by pointer
  std::deque<std::pair<SchemaPlace, GrammarRule>> undefined_;
  int nesting_ = 0;
  std::size_t comparisons_left_ = 1'000'000;  // of branches of oneOf, in the whole document
};

}  // namespace troupe
