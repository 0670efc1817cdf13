// SPDX-License-Identifier: Apache-2.0
// Input of a chat template: JSON-like values that remember which strings
// came from a client. Such strings never become special tokens.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/marked_string.hpp"

namespace troupe {

class TemplateValue {
 public:
  struct String {
    std::string text;
    bool from_input = true;
  };
  using Array = std::vector<TemplateValue>;
  // In the order of insertion; of equal names the last one counts.
  using Object = std::vector<std::pair<std::string, TemplateValue>>;
  using Variant =
      std::variant<std::monostate, bool, std::int64_t, double, String, MarkedString, Array, Object>;

  TemplateValue() = default;  // none
  TemplateValue(bool value) : value_(value) {}
  TemplateValue(int value) : value_(std::int64_t{value}) {}
  TemplateValue(std::int64_t value) : value_(value) {}
  TemplateValue(double value) : value_(value) {}
  TemplateValue(Array value) : value_(std::move(value)) {}
  TemplateValue(Object value) : value_(std::move(value)) {}
  // Without these a string literal would silently be a bool.
  TemplateValue(const char*) = delete;

  // Text of a client.
  static TemplateValue input(std::string text) { return TemplateValue(String{std::move(text), true}); }
  // Text of ours or of the model's files: may become special tokens.
  static TemplateValue trusted(std::string text) { return TemplateValue(String{std::move(text), false}); }

  // Text of a client that outlives what is rendered from it.
  static TemplateValue borrowed_input(const std::string& text) {
    return TemplateValue(MarkedString::borrowed_input(text));
  }
  // Some of it is a client's.
  static TemplateValue mixed(MarkedString text) { return TemplateValue(std::move(text)); }

  const Variant& variant() const { return value_; }
  Variant take() && { return std::move(value_); }

 private:
  explicit TemplateValue(String value) : value_(std::move(value)) {}
  explicit TemplateValue(MarkedString value) : value_(std::move(value)) {}

  Variant value_;
};

}  // namespace troupe
