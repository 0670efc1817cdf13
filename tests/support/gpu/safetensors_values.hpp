// SPDX-License-Identifier: Apache-2.0
// Values of a tensor in a file of references.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "gpu/model/safetensors.hpp"

namespace troupe::test {

// A copy of the tensor's values, which are of type T. Fails the test where the file has no such tensor.
template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const std::string& name) {
  const auto* entry = file.find(name);
  REQUIRE_MESSAGE(entry != nullptr, name);
  std::vector<T> values(entry->size_bytes / sizeof(T));
  std::memcpy(values.data(), file.bytes_of(*entry).data(), entry->size_bytes);
  return values;
}

}  // namespace troupe::test
