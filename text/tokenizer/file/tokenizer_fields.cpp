// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/tokenizer_fields.hpp"

namespace troupe {
namespace {

const nlohmann::json kNull;

}  // namespace

TokenizerField TokenizerField::operator[](const char* name) const {
  if (!value_->is_object()) fail(std::string("expected an object, got ") + value_->type_name());
  const auto found = value_->find(name);
  const std::string path = path_.empty() ? name : path_ + "." + name;
  return TokenizerField(found == value_->end() ? kNull : *found, path);
}

std::vector<TokenizerField> TokenizerField::elements() const {
  if (!value_->is_array()) fail(std::string("expected an array, got ") + value_->type_name());
  std::vector<TokenizerField> fields;
  fields.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) {
    fields.emplace_back((*value_)[i], path_ + "[" + std::to_string(i) + "]");
  }
  return fields;
}

std::string TokenizerField::as_string() const {
  if (!value_->is_string()) fail(std::string("expected a string, got ") + value_->type_name());
  return value_->get<std::string>();
}

std::string TokenizerField::string_or(const char* name, const std::string& fallback) const {
  const TokenizerField field = (*this)[name];
  return field.is_null() ? fallback : field.as_string();
}

bool TokenizerField::bool_or(const char* name, bool fallback) const {
  const TokenizerField field = (*this)[name];
  if (field.is_null()) return fallback;
  if (!field.value().is_boolean()) {
    field.fail(std::string("expected true or false, got ") + field.value().type_name());
  }
  return field.value().get<bool>();
}

std::string TokenizerField::type() const { return (*this)["type"].as_string(); }

void TokenizerField::fail(const std::string& reason) const {
  throw std::runtime_error((path_.empty() ? "the file" : path_) + ": " + reason);
}

void TokenizerField::fail_unsupported(const std::string& construct) const {
  fail(construct + " is not supported");
}

}  // namespace troupe
