// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/result_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "loadgen/result/atomic_file.hpp"
#include "loadgen/result/request_line.hpp"
#include "loadgen/result/result_json.hpp"

namespace troupe::loadgen {
namespace {

constexpr std::size_t kWriteBytes = 1 << 20;

std::ifstream open(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path.string() + ": " + std::strerror(errno));
  return stream;
}

void write_requests(const std::filesystem::path& path, const std::vector<RequestRecord>& records) {
  AtomicFile file(path);
  std::string buffer;
  for (const auto& record : records) {
    append_request_line(buffer, record);
    if (buffer.size() < kWriteBytes) continue;
    file.write(buffer);
    buffer.clear();
  }
  file.write(buffer);
  file.commit();
}

std::vector<RequestRecord> read_requests(const std::filesystem::path& path, std::size_t num_classes) {
  auto stream = open(path);
  std::vector<RequestRecord> records;
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    const auto where = path.string() + ":" + std::to_string(number);
    records.push_back(parse_request_line(line, where));
    if (records.back().request_class >= num_classes)
      throw std::runtime_error(where + ": class " + std::to_string(records.back().request_class) + ", but " +
                               kResultsFile + " has " + std::to_string(num_classes) + " classes");
  }
  return records;
}

}  // namespace

void write_result(const std::filesystem::path& directory, const RunResult& result, const Summary& summary) {
  write_requests(directory / kRequestsFile, result.records);
  write_file_atomically(directory / kResultsFile, results_json(result, summary));
}

RunResult read_result(const std::filesystem::path& directory) {
  const auto path = directory / kResultsFile;
  auto stream = open(path);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  auto result = parse_results_json(text, path.string());
  result.records = read_requests(directory / kRequestsFile, result.classes.size());
  return result;
}

bool holds_result(const std::filesystem::path& directory) {
  std::error_code ignored;  // what cannot be looked at holds nothing
  return std::filesystem::is_regular_file(directory / kResultsFile, ignored);
}

}  // namespace troupe::loadgen
