// SPDX-License-Identifier: Apache-2.0
// Typed access to the fields of tokenizer.json. Every error says the path of
// the field, what was expected and what came.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {

// A value and where it stands ("pre_tokenizer.pretokenizers[1]").
class TokenizerField {
 public:
  TokenizerField(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }
  // A field that is absent reads as null.
  TokenizerField operator[](const char* name) const;
  std::vector<TokenizerField> elements() const;

  std::string as_string() const;
  std::string string_or(const char* name, const std::string& fallback) const;
  bool bool_or(const char* name, bool fallback) const;
  // The value of "type".
  std::string type() const;

  [[noreturn]] void fail(const std::string& reason) const;
  [[noreturn]] void fail_unsupported(const std::string& construct) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace troupe
