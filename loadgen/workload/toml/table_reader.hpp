// SPDX-License-Identifier: Apache-2.0
// TOML files, read table by table: a reader remembers which keys it was asked for, so
// that unknown ones can be refused, with the nearest known one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

namespace troupe::loadgen {

// Throws std::runtime_error: "FILE: can't be read: …", "FILE:LINE: …".
toml::table parse_toml_file(const std::filesystem::path& file);

// Keeps a reference to the table. Every failure is a std::runtime_error:
// "FILE:LINE: NAME.KEY: expected ..., got ...".
class TableReader {
 public:
  TableReader(const toml::table& table, std::string name) : table_(table), name_(std::move(name)) {}

  // These leave the value alone where the key is missing.
  void read(std::string_view key, double& value);  // whole numbers too
  void read(std::string_view key, std::uint32_t& value);
  void read(std::string_view key, std::uint64_t& value);
  void read(std::string_view key, bool& value);
  void read(std::string_view key, std::string& value);
  void read(std::string_view key, std::vector<double>& value);
  void read(std::string_view key, std::vector<std::string>& value);
  // `otherwise`, one of the choices, where the key is missing.
  std::string read_choice(std::string_view key, const std::vector<std::string>& choices,
                          std::string_view otherwise);

  // For values of other shapes; null where the key is missing.
  const toml::node* find(std::string_view key);
  std::string name_of(std::string_view key) const;  // "arrivals.rate"
  [[noreturn]] void refuse(const toml::node& node, std::string_view key, const std::string& expected) const;
  // After the last read.
  void refuse_unknown_keys() const;

 private:
  const toml::table& table_;
  std::string name_;
  std::vector<std::string> known_;
};

// The tables of a list of tables, or of none where the node is null.
std::vector<const toml::table*> tables_of(const toml::node* node, const std::string& name);

// "FILE:LINE: WHAT", as far as toml++ knows them.
[[noreturn]] void refuse_at(const toml::source_region& place, const std::string& what);

}  // namespace troupe::loadgen
