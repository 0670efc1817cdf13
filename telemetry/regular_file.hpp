// SPDX-License-Identifier: Apache-2.0
// Files that an option names and that are read while the server goes on: opening
// one never waits, as it would for a FIFO without a writer.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace troupe {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using RegularFile = std::unique_ptr<std::FILE, CloseFile>;

// For reading bytes. Throws std::runtime_error with path and reason: it can't be opened, or is
// no regular file.
RegularFile open_regular_file(const std::filesystem::path& path);

// All of it. Throws as open_regular_file() does, and if it can't be read or has more than
// max_bytes.
std::string read_regular_file(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace troupe
