// SPDX-License-Identifier: Apache-2.0
// The objects of one large JSON list, one at a time: files of conversations
// can be bigger than memory.
#pragma once

#include <cstdint>
#include <string>

#include "loadgen/traces/trace_input.hpp"

namespace troupe::loadgen {

class JsonListReader {
 public:
  explicit JsonListReader(TraceInput input) : input_(std::move(input)) {}

  // The text of the next object; false after the last. Throws
  // std::runtime_error where the list is malformed or ends too early. What is
  // inside an object is the caller's to parse.
  bool next(std::string& object);

  std::uint64_t line() const { return object_line_; }  // where the object began
  [[noreturn]] void fail(const std::string& what) const;

 private:
  int next_visible();
  void read_object(std::string& object);

  TraceInput input_;
  std::uint64_t object_line_ = 1;
  bool has_begun_ = false;
  bool has_ended_ = false;
};

}  // namespace troupe::loadgen
