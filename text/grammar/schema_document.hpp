// SPDX-License-Identifier: Apache-2.0
// A JSON schema as a document: parsing within limits, references, and the one schema that says what two
// say together.
#pragma once

#include <cstddef>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/grammar/grammar_error.hpp"

namespace troupe {

using SchemaJson = nlohmann::ordered_json;  // properties keep their order

// A schema and where it stands: "#/properties/name".
struct SchemaPlace {
  const SchemaJson* json = nullptr;
  std::string path;

  SchemaPlace operator/(const std::string& key) const;
  SchemaPlace operator/(std::size_t index) const;
  // The same where the member is at hand.
  SchemaPlace member(const std::string& key, const SchemaJson& value) const;
  // nullptr: the schema doesn't have it.
  const SchemaJson* find(const char* keyword) const;
  [[noreturn]] void fail(const std::string& reason) const;
  [[noreturn]] void fail(const char* keyword, const std::string& reason) const;
};

class SchemaDocument {
 public:
  static constexpr std::size_t kMaxBytes = 1 << 20;
  static constexpr std::size_t kMaxDepth = 64;
  static constexpr std::size_t kMaxMembers = 5'000;  // of one object or list
  static constexpr std::size_t kMaxMergedBytes = 2 << 20;
  static constexpr std::size_t kMaxWork = std::size_t{512} << 20;  // bytes compared in joining

  // Throws GrammarError: not JSON, or beyond a limit.
  explicit SchemaDocument(std::string_view text);

  SchemaPlace root() const { return {&root_, "#"}; }
  // The schema that `place` refers to by $ref, within the document.
  SchemaPlace referred(const SchemaPlace& place) const;
  // The schema itself, or the one that it is a mere reference to.
  SchemaPlace resolved(SchemaPlace place) const;
  // A schema that says what both do: `false` where no type or value of enum
  // is in both. Throws GrammarError where
  // no one schema says it.
  SchemaPlace merged(const SchemaPlace& left, const SchemaPlace& right);
  // Without some keywords.
  SchemaPlace without(const SchemaPlace& place, std::initializer_list<const char*> keywords);

 private:
  SchemaPlace keep(SchemaJson json, const std::string& path);
  void work_on(std::size_t num_bytes, const SchemaPlace& place);

  SchemaJson root_;
  std::deque<SchemaJson> made_;
  std::size_t merged_bytes_ = 0;
  std::size_t work_ = 0;  // bytes that were compared
};

// A keyword that says nothing about which values are valid: titles, and all that the specification doesn't
// know.
bool is_annotation(const std::string& keyword);
bool has_constraints(const SchemaJson& schema);

}  // namespace troupe
