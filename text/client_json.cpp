// SPDX-License-Identifier: Apache-2.0
#include "text/client_json.hpp"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

// Hears of the document piece by piece; false ends the parsing.
class Builder {
 public:
  bool null() { return put({}); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return value <= kMost ? put(static_cast<std::int64_t>(value)) : put(static_cast<double>(value));
  }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(TemplateValue::input(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool key(std::string& name) {
    open_.back().key = std::move(name);
    return open_.back().members.size() < kMaxClientJsonKeys;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) { return false; }

  TemplateValue take() { return std::move(result_); }

 private:
  struct Container {
    bool is_object = false;
    std::string key = {};  // of the next member
    TemplateValue::Array elements = {};
    TemplateValue::Object members = {};
  };

  bool open(bool is_object) {
    open_.push_back({.is_object = is_object});
    return open_.size() <= kMaxClientJsonDepth;
  }
  bool close() {
    Container done = std::move(open_.back());
    open_.pop_back();
    if (done.is_object) return put(std::move(done.members));
    return put(std::move(done.elements));
  }
  bool put(TemplateValue value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().members.emplace_back(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().elements.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Container> open_;
  TemplateValue result_;
};

}  // namespace

std::optional<TemplateValue> parse_client_json(std::string_view text) {
  Builder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take();
}

}  // namespace troupe
