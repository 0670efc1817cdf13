// SPDX-License-Identifier: Apache-2.0
// A run's result on disk, and back: a directory with
//   results.json    settings and summary; the summary's keys are those of
//                   `vllm bench serve` where the meaning is the same
//   requests.jsonl  one request a line, all times in nanoseconds from the begin
// Each is written whole or not at all. Files that are read may have been damaged or
// made by strangers: every error is named with file and line.
#pragma once

#include <filesystem>

#include "loadgen/result/run_result.hpp"
#include "loadgen/result/summary.hpp"

namespace troupe::loadgen {

inline constexpr const char* kResultsFile = "results.json";
inline constexpr const char* kRequestsFile = "requests.jsonl";

// Makes the directory. Throws std::runtime_error with path and cause.
// results.json comes last: where it is, the run is complete.
void write_result(const std::filesystem::path& directory, const RunResult& result, const Summary& summary);

// Throws std::runtime_error: what was expected, what came, and where. The
// summary is not read: summarize() makes it anew from the requests.
RunResult read_result(const std::filesystem::path& directory);

bool holds_result(const std::filesystem::path& directory);

}  // namespace troupe::loadgen
